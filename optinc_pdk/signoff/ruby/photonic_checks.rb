# Checks that know what a guide, a heater, a pad and a grating are; each returns its faults as a region.
# They are those of signoff/photonic_checks.py, on flat shapes.
module Checks

  # Sides of a pad that form a greater angle are no opposite ones: OPPOSITE_DEG of signoff/photonic_checks.py.
  OPPOSITE_DEG = 40.0

  module_function

  # Guides that come too close where no body couples them.
  def check_guide_space(design, rule)
    name = rule["layers"][0]
    bodies = design.bodies(name, rule["body_um"])
    # Arms deep in the exempt region face each other in thousands of pairs of chords. Cutting them off changes no gap
    # outside that region: what a cut can face is at most the value away, so inside it.
    deep = design.dbu(rule["exempt_um"]) - design.dbu(rule["value_um"])
    guides = design.region(name) - bodies.sized(deep)
    pairs = measured(design, rule) { |*limit| guides.space_check(*limit) }
    exempt = bodies.sized(design.dbu(rule["exempt_um"]))
    gaps = not_exempt(design, rule, pairs, exempt)
    gaps.is_empty? ? gaps : not_exempt(design, rule, open_pairs(design, name, pairs), exempt)
  end

  def not_exempt(design, rule, pairs, exempt)
    gaps = united(pairs.polygons(0))
    rule["layers"].drop(1).each { |marker| gaps -= design.region(marker) }
    gaps - exempt
  end

  # Pairs of edges with a way from one to the other that crosses no guide. The two sides of one guide that bends left,
  # then right, see each other along it, through its own silicon.
  def open_pairs(design, name, pairs)
    found = RBA::EdgePairs::new
    pairs.each do |pair|
      gap = pair.polygon(0)
      free = RBA::Region::new(gap) - design.near(name, gap.bbox)
      first, second = RBA::Edges::new([pair.first]), RBA::Edges::new([pair.second])
      found.insert(pair) if gap.area == 0 || !free.interacting(first).interacting(second).is_empty?
    end
    found
  end

  # Places where a guide's concave edge turns too sharply.
  def check_bend_radius(design, rule)
    core, second = rule["layers"]
    slab = design.region(second)
    return RBA::Region::new if rule["inside_second"] && slab.is_empty?
    edge_um, dbu = rule["value_um"] - rule["guide_width_um"] / 2, design.layout.dbu
    limits = rule["arms_um"].map { |arm, tolerance| [arm / dbu, (edge_um - tolerance) / dbu] }
    faults = RBA::Region::new
    contours(design.region(core)).each do |contour|
      limits.flat_map { |arm, least| concave_vertices(contour, arm, least) }.uniq.each do |x, y|
        # as small as can be, because it decides what is near a body
        faults.insert(RBA::Box::new(x - 1, y - 1, x + 1, y + 1))
      end
    end
    return faults if faults.is_empty?
    faults = rule["inside_second"] ? faults.inside(slab) : faults.not_inside(slab)
    faults = faults.outside(design.bodies(core, rule["body_um"]).sized(design.dbu(rule["exempt_um"])))
    # one marker per bend, whose vertices are less than an arm apart
    faults.sized(design.dbu(rule["arms_um"].map { |arm, _| arm }.max).div(2)).merged
  end

  # The closed contours of a region's polygons, silicon to the right, as lists of [x, y] in its units.
  def contours(region)
    region.each.flat_map do |polygon|
      rings = [polygon.each_point_hull] + (0...polygon.holes).map { |i| polygon.each_point_hole(i) }
      rings.map { |ring| ring.map { |point| [point.x, point.y] } }
    end
  end

  # The vertices of a closed contour at which a concave edge has a radius below `least`: that of the circle through
  # the vertex and the points `arm` before and after it, all in the contour's unit.
  def concave_vertices(contour, arm, least)
    closed = contour + [contour[0]]
    along = [0.0]
    closed.each_cons(2) { |(x, y), (u, v)| along << along[-1] + Math.hypot(u - x, v - y) }
    before, after = places(closed, along, -arm), places(closed, along, arm)
    contour.each_index.select { |i|
      x, y = contour[i]
      bx, by, ax, ay = before[i][0] - x, before[i][1] - y, after[i][0] - x, after[i][1] - y
      # minus twice the triangle's area at a right turn, which is convex
      turn = by * ax - bx * ay
      turn > 0 && Math.hypot(bx, by) * Math.hypot(ax, ay) * Math.hypot(ax - bx, ay - by) / (2 * turn) < least
    }.map { |i| contour[i] }
  end

  # The points of a closed contour that lie `shift` further along it than each vertex.
  def places(closed, along, shift)
    length, piece = along[-1], nil
    (0...closed.length - 1).map do |i|
      place = (along[i] + shift) % length
      # places follow each other, so the search goes on from the last piece
      piece = along.bsearch_index { |distance| distance > place } - 1 if piece.nil? || place < along[piece]
      piece += 1 while along[piece + 1] <= place && piece + 2 < along.length
      (x, y), (u, v) = closed[piece], closed[piece + 1]
      step, rest = along[piece + 1] - along[piece], place - along[piece]
      [(u - x) / step * rest + x, (v - y) / step * rest + y]
    end
  end

  # Heaters without exactly two contacts on two nets, or with metal across them.
  def check_contacts(design, rule)
    heater, metal = regions(design, rule)
    sound = heater.interacting(heater & metal, 2, 2)
    sound = sound.interacting(metal.overlapping(heater), 2, 2)
    sound = sound.interacting(heater - metal, 1, 1)
    heater - sound
  end

  # Guides that a heater warms without being meant to.
  def check_foreign_guide(design, rule)
    heater, metal, core = rule["layers"]
    # a body cut by the window's edge must still be recognised
    reach = design.dbu(rule["value_um"] + rule["exempt_um"]) + 2 * design.dbu(rule["body_um"])
    faults = RBA::Region::new
    (design.region(heater) - design.region(metal)).merged.each do |polygon|
      silicon = design.near(core, polygon.bbox.enlarged(reach, reach)).merged
      faults += foreign(design, rule, RBA::Region::new(polygon), silicon)
    end
    faults
  end

  # The faults of one heater among the silicon around it.
  def foreign(design, rule, hot, silicon)
    value, exempt, body = ["value_um", "exempt_um", "body_um"].map { |key| design.dbu(rule[key]) }
    around = silicon & hot.sized(value + exempt)
    own = around.overlapping(hot)
    entered = silicon.sized(-body).sized(body).interacting(own)
    guides = own - entered.sized(exempt)
    # what the exempt region cuts off from the guide under the heater is another arm
    others = (around - own) + (guides - guides.overlapping(hot))
    hot.separation_check(others, value).polygons(1)
  end

  # What is left of metal wider than a limit both ways where half of that is taken from every side.
  def pad_cores(design, layer, recognize_um)
    design.region(layer).sized(-design.dbu(recognize_um).div(2)).merged
  end

  # Metal wider than a limit both ways.
  def pads(design, layer, recognize_um)
    pad_cores(design, layer, recognize_um).sized(design.dbu(recognize_um).div(2)).merged
  end

  # Pads too small, and labelled metal that holds no pad.
  def check_pad_size(design, rule)
    metal, label = rule["layers"]
    value = design.dbu(rule["value_um"])
    narrow = pads(design, metal, rule["recognize_um"]).width_check(value, false, RBA::Region::Euclidian, OPPOSITE_DEG).polygons(1)
    return narrow unless design.index(label)
    # as boxes: KLayout finds no text that is outside an empty region
    texts = RBA::Texts::new(design.top.begin_shapes_rec(design.index(label)))
    marks = texts.polygons(design.dbu(Design::MARKER_UM)).interacting(design.region(metal))
    # metal that is exactly as wide as a pad must survive the shrink: half a database unit less each side
    whole = design.region(metal).sized(1 - value.div(2)).sized(value.div(2) - 1)
    narrow + marks.not_interacting(whole)
  end

  # Pads whose centres are too close.
  def check_pad_pitch(design, rule)
    size = design.dbu(rule["recognize_um"]).div(2)
    boxes = pad_cores(design, rule["layers"][0], rule["recognize_um"]).each.map { |core| core.bbox.enlarged(size, size) }
    too_close(boxes, design.dbu(rule["value_um"]))
  end

  # Gratings whose centres are too close; a grating is a cluster of etched lines.
  def check_fibre_pitch(design, rule)
    grown = design.dbu(rule["merge_um"]).div(2)
    clusters = design.region(rule["layers"][0]).sized(grown).merged
    too_close(clusters.each.map { |cluster| cluster.bbox }, design.dbu(rule["value_um"]))
  end

  # A marker around each pair of boxes whose centres are less than `least` database units apart.
  def too_close(boxes, least)
    # twice the centres, which are whole numbers, from left to right
    sorted = boxes.map { |box| [box.left + box.right, box.bottom + box.top, box] }.sort_by { |x, y, _| [x, y] }
    faults = RBA::Region::new
    sorted.each_with_index do |(x, y, box), i|
      sorted[i + 1..-1].each do |u, v, other|
        break if u - x >= 2 * least
        faults.insert(box + other) if (u - x)**2 + (v - y)**2 < (2 * least)**2
      end
    end
    faults
  end

end
