# Checks of guides, heaters, pads and gratings; each returns its violations as a region.
# They are the Python checks of optinc, on flat shapes. A body is silicon wider than a guide.
module Checks

  # Sides of a pad that form a larger angle are not opposite; equal to OPPOSITE_DEG of the Python checks.
  OPPOSITE_DEG = 40.0

  # A square that is not parallel to the axes may be smaller by this; equal to TURNED_SLACK of the Python checks.
  TURNED_SLACK = 4

  # Factor by which pads are enlarged to find room for squares; equal to ENLARGED of the Python checks.
  ENLARGED = 4

  module_function

  # Gaps between guides that are too narrow, except near bodies and under valid marks.
  def check_guide_space(design, rule)
    name = rule["layers"][0]
    bodies = design.bodies(name, rule["body_um"])
    # Arms deep in the exempt region face each other in thousands of pairs of chords. Cutting them off changes no gap
    # outside that region: an edge made by the cut faces only edges within the rule's value, which are inside it.
    deep = design.dbu(rule["exempt_um"]) - design.dbu(rule["value_um"])
    guides = design.region(name) - bodies.sized(deep)
    pairs = measured(design, rule) { |*limit| guides.space_check(*limit) }
    exempt = bodies.sized(design.dbu(rule["exempt_um"]))
    gaps = not_exempt(design, rule, pairs, exempt)
    gaps.is_empty? ? gaps : not_exempt(design, rule, open_pairs(design, name, pairs), exempt)
  end

  def not_exempt(design, rule, pairs, exempt)
    gaps = united(pairs.polygons(0))
    return gaps if gaps.is_empty?
    rule["layers"].drop(1).each { |marker| gaps -= valid_marks(design, rule, marker) }
    gaps -= device_boxes(design, rule) if rule["layers"].size == 1
    gaps - exempt
  end

  # Marks that are the bounding box of one of the rule's devices and cover exactly its silicon, or lie over two guides.
  def valid_marks(design, rule, marker)
    devices = rule["silicon_nm"].flat_map { |polygons| orientations(polygons, 0.001 / design.layout.dbu) }
    marks = design.region(marker).each.select do |mark|
      box = mark.bbox
      silicon = design.near(rule["layers"][0], box)
      drawn = silicon.moved(-box.left, -box.bottom)
      extent = RBA::Box::new(0, 0, box.width, box.height)
      mark.is_box? && (devices.any? { |device| device.bbox == extent && (drawn ^ device).is_empty? } ||
                       two_guides?(silicon, box, rule["coupled_width_um"] && design.dbu(rule["coupled_width_um"])) &&
                       design.near(rule["layers"][0], box.enlarged(1, 1)).merged(true, 0).count == 2)
    end
    marks.each_with_object(RBA::Region::new) { |mark, region| region.insert(mark) }
  end

  # Bounding boxes of the rule's devices where they contain exactly the silicon of a device, for rules without marks.
  def device_boxes(design, rule)
    core, boxes = rule["layers"][0], RBA::Region::new
    edges = design.region(core).edges
    rule["silicon_nm"].flat_map { |polygons| orientations(polygons, 0.001 / design.layout.dbu) }.each do |device|
      extent = device.bbox
      inside = device.edges.each.reject do |edge|
        [edge.p1, edge.p2].any? { |p| [extent.left, extent.right].include?(p.x) || [extent.bottom, extent.top].include?(p.y) }
      end
      anchor = inside.max_by(&:length)
      next unless anchor
      edges.with_length(anchor.length, false).each do |edge|
        shift = edge.p1 - anchor.p1
        next unless edge.p2 - anchor.p2 == shift
        drawn = design.near(core, extent.moved(shift)).moved(-shift)
        boxes.insert(extent.moved(shift)) if (drawn ^ device).is_empty?
      end
    end
    boxes
  end

  # Whether the silicon in a box consists of two guides of a width that cross its border at right angles, each twice.
  def two_guides?(silicon, box, width)
    return false unless width
    guides, border = silicon.merged(true, 0), RBA::Region::new(box).edges
    ends = guides.each.map { |guide| (RBA::Region::new(guide).edges & border).each.map(&:length) }
    guides.holes.is_empty? && ends == [[width, width], [width, width]]
  end

  # The silicon of a device in all orientations, with its lower left corner at the origin.
  def orientations(polygons, scale)
    shapes = RBA::Region::new(polygons.map { |points| RBA::Polygon::new(points.map { |x, y| RBA::Point::new(x, y) }) })
    [false, true].product([0, 90, 180, 270]).map do |mirrored, angle|
      turned = shapes.transformed(RBA::ICplxTrans::new(scale, angle, mirrored, 0, 0))
      turned.moved(-turned.bbox.left, -turned.bbox.bottom)
    end
  end

  # Pairs of edges with a path between them that crosses no guide. The two sides of a guide that bends left, then right,
  # face each other through the guide's own silicon.
  def open_pairs(design, name, pairs)
    result = RBA::EdgePairs::new
    pairs.each do |pair|
      gap = pair.polygon(0)
      free = RBA::Region::new(gap) - design.near(name, gap.bbox)
      first, second = RBA::Edges::new([pair.first]), RBA::Edges::new([pair.second])
      result.insert(pair) if gap.area == 0 || !free.interacting(first).interacting(second).is_empty?
    end
    result
  end

  # Places where the radius of a guide's concave edge is too small.
  def check_bend_radius(design, rule)
    core, second = rule["layers"]
    slab = design.region(second)
    return RBA::Region::new if rule["inside_second"] && slab.is_empty?
    edge_um, dbu = rule["value_um"] - rule["guide_width_um"] / 2, design.layout.dbu
    limits = rule["arms_um"].map { |arm, tolerance| [arm / dbu, (edge_um - tolerance) / dbu] }
    violations = RBA::Region::new
    contours(design.region(core)).each do |contour|
      limits.flat_map { |arm, least| concave_vertices(contour, arm, least) }.uniq.each do |x, y|
        # as small as possible, because its extent decides whether it is near a body
        violations.insert(RBA::Box::new(x - 1, y - 1, x + 1, y + 1))
      end
    end
    return violations if violations.is_empty?
    violations = rule["inside_second"] ? violations.inside(slab) : violations.not_inside(slab)
    violations = violations.outside(design.bodies(core, rule["body_um"]).sized(design.dbu(rule["exempt_um"])))
    # one marker per bend, whose vertices are less than an arm apart
    violations.sized(design.dbu(rule["arms_um"].map { |arm, _| arm }.max).div(2)).merged
  end

  # Closed contours of a region's polygons as lists of [x, y] in database units, with the material to the right.
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
      # twice the triangle's area, negative at a right turn, which is convex
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
    correct = heater.interacting(heater & metal, 2, 2)
    correct = correct.interacting(metal.overlapping(heater), 2, 2)
    correct = correct.interacting(heater - metal, 1, 1)
    heater - correct
  end

  # Guides too close to a heater other than the heater of their own phase shifter.
  def check_foreign_guide(design, rule)
    heater, metal, core = rule["layers"]
    # a body cut by the window's edge must still be recognised
    reach = design.dbu(rule["value_um"] + rule["exempt_um"]) + 2 * design.dbu(rule["body_um"])
    violations = RBA::Region::new
    (design.region(heater) - design.region(metal)).merged.each do |polygon|
      silicon = design.near(core, polygon.bbox.enlarged(reach, reach)).merged
      violations += foreign(design, rule, RBA::Region::new(polygon), silicon)
    end
    violations
  end

  # Violations of one heater and the silicon around it.
  def foreign(design, rule, hot, silicon)
    value, exempt, body = ["value_um", "exempt_um", "body_um"].map { |key| design.dbu(rule[key]) }
    around = silicon & hot.sized(value + exempt)
    heated = around.overlapping(hot)
    entered = silicon.sized(-body).sized(body).interacting(heated)
    guides = heated - entered.sized(exempt)
    # guides that the exempt region separates from the guide under the heater are other arms
    others = (around - heated) + (guides - guides.overlapping(hot))
    hot.separation_check(others, value).polygons(1)
  end

  # Metal shrunk on every side by half of the width above which it is a pad.
  def pad_cores(design, layer, recognize_um)
    design.region(layer).sized(-design.dbu(recognize_um).div(2)).merged
  end

  # Pads: metal that is wider than a limit in both directions.
  def pads(design, layer, recognize_um)
    pad_cores(design, layer, recognize_um).sized(design.dbu(recognize_um).div(2)).merged
  end

  # Whether a square lies within a pad, parallel to the axes or to a side of the pad of at least half its length.
  def contains_square?(design, metal, pad, side)
    drawn = design.near(metal, pad.bbox).merged.interacting(RBA::Region::new(pad))
    to_origin = RBA::ICplxTrans::new(RBA::Trans::new(-pad.bbox.left, -pad.bbox.bottom))
    if pad.is_rectilinear? && (RBA::Region::new(pad) - drawn).is_empty?
      # shrinking keeps right angles; where the square fits exactly, half a database unit less leaves an area
      enlarged = RBA::Region::new(pad).transformed(RBA::ICplxTrans::new(ENLARGED) * to_origin)
      return !enlarged.sized(1 - (ENLARGED * side).div(2)).is_empty?
    end
    turns = RBA::Region::new(pad).edges.each.select { |edge| edge.length >= side.div(2) }.map { |edge|
      (Math.atan2(edge.dy, edge.dx) * 180 / Math::PI % 90).round(3)
    }
    ([0.0] + turns).uniq.any? do |turn|
      enlarged = drawn.transformed(RBA::ICplxTrans::new(ENLARGED, -turn, false, 0, 0) * to_origin)
      leaves_room?(enlarged, ENLARGED * (side - (turn == 0.0 ? 0 : TURNED_SLACK)))
    end
  end

  # Whether a square parallel to the axes lies within shapes, its side in database units.
  def leaves_room?(shapes, side)
    # where the square fits exactly, one with a database unit less leaves an area to its corner
    outside, room = RBA::Region::new(shapes.bbox.enlarged(side, side)) - shapes, RBA::Box::new(1 - side, 1 - side, 0, 0)
    !(RBA::Region::new(shapes.bbox) - outside.minkowski_sum(room)).is_empty?
  end

  # Pads that are too small, and labels on metal that are not on a pad.
  def check_pad_size(design, rule)
    metal, label = rule["layers"]
    value = design.dbu(rule["value_um"])
    found = pads(design, metal, rule["recognize_um"])
    narrow = found.width_check(value, false, RBA::Region::Euclidian, OPPOSITE_DEG).polygons(1)
    found.each { |pad| narrow.insert(pad) unless contains_square?(design, metal, pad, value) }
    return narrow unless design.index(label)
    # as boxes, because KLayout reports no text as outside an empty region
    texts = RBA::Texts::new(design.top.begin_shapes_rec(design.index(label)))
    marks = texts.polygons(design.dbu(Design::MARKER_UM)).interacting(design.region(metal))
    # shrink by half a database unit less on each side, so that metal exactly as wide as a pad remains
    whole = design.region(metal).sized(1 - value.div(2)).sized(value.div(2) - 1)
    narrow + marks.not_interacting(whole)
  end

  # Pairs of pads whose centres are too close.
  def check_pad_pitch(design, rule)
    size = design.dbu(rule["recognize_um"]).div(2)
    boxes = pad_cores(design, rule["layers"][0], rule["recognize_um"]).each.map { |core| core.bbox.enlarged(size, size) }
    too_close(boxes, design.dbu(rule["value_um"]))
  end

  # Pairs of gratings whose centres are too close; a grating is a cluster of etched lines.
  def check_fibre_pitch(design, rule)
    grown = design.dbu(rule["merge_um"]).div(2)
    clusters = design.region(rule["layers"][0]).sized(grown).merged
    too_close(clusters.each.map { |cluster| cluster.bbox }, design.dbu(rule["value_um"]))
  end

  # Silicon in the keep-out of the dies' edges that is no straight tip at a facet, and tips too close to each other.
  def check_facet(design, rule)
    core, outline = rule["layers"]
    whole, widest = design.region(outline), design.dbu(rule["guide_width_um"])
    inner = whole.sized(-design.dbu(rule["keepout_um"])).merged
    facing = whole - whole.sized(-design.dbu(rule["most_um"]))
    silicon = design.region(core)
    pieces = (silicon - inner).merged
    violations = pieces - whole.sized(-design.dbu(rule["value_um"]))
    violations += pieces.not_interacting(facing) + pieces.not_interacting(inner)
    pieces.each { |piece| violations.insert(piece) if [piece.bbox.width, piece.bbox.height].min > widest }
    # where pieces enter the keep-out
    entries = (silicon & (inner - inner.sized(-1))).merged
    violations + too_close(entries.each.map { |entry| entry.bbox }, design.dbu(rule["pitch_um"]))
  end

  # A marker around each pair of boxes whose centres are less than `least` database units apart.
  def too_close(boxes, least)
    # twice the centres, which are integers, sorted from left to right
    sorted = boxes.map { |box| [box.left + box.right, box.bottom + box.top, box] }.sort_by { |x, y, _| [x, y] }
    violations = RBA::Region::new
    sorted.each_with_index do |(x, y, box), i|
      sorted[i + 1..-1].each do |u, v, other|
        break if u - x >= 2 * least
        violations.insert(box + other) if (u - x)**2 + (v - y)**2 < (2 * least)**2
      end
    end
    violations
  end

end
