# Checks between edges and shapes, one function per kind of rule; each returns its faults as a region.
# They are those of signoff/checks.py, on flat shapes. A rule is a hash with the keys of rules.yml.
module Checks

  ORTHO = RBA::Edges::OrthoEdges

  module_function

  # The edge pairs that are faults, from a block that finds what is closer than a distance in database units. Rounding
  # is forgiven where an edge is not parallel to an axis: these are measured again, at the value less the tolerance.
  def measured(design, rule)
    metric = [false, RBA::Region::Euclidian, rule["ignore_angle_deg"]]
    value, tolerance = rule["value_um"], rule["angled_tolerance_um"]
    pairs = yield(design.dbu(value), *metric)
    return pairs if tolerance == 0 || pairs.is_empty?
    faults = pairs.with_angle_both(ORTHO, false)
    return faults if faults.count == pairs.count
    faults + yield(design.dbu(value - tolerance), *metric).with_angle(ORTHO, true)
  end

  # A region's shapes merged, some at a time: KLayout takes minutes for hundreds that lie over each other.
  def united(region)
    parts, count = region.each.to_a, nil
    until parts.length == count
      count = parts.length
      parts = parts.each_slice(20).flat_map { |some| RBA::Region::new(some).merged.each.to_a }
    end
    RBA::Region::new(parts).merged
  end

  def regions(design, rule)
    rule["layers"].map { |name| design.region(name) }
  end

  def check_width(design, rule)
    shapes = design.region(rule["layers"][0])
    measured(design, rule) { |*limit| shapes.width_check(*limit) }.polygons(1)
  end

  def check_space(design, rule)
    shapes = design.region(rule["layers"][0])
    measured(design, rule) { |*limit| shapes.space_check(*limit) }.polygons(1)
  end

  def check_notch(design, rule)
    shapes = design.region(rule["layers"][0])
    measured(design, rule) { |*limit| shapes.notch_check(*limit) }.polygons(1)
  end

  def check_overlap(design, rule)
    first, second = regions(design, rule)
    return first.dup if first.is_empty? || second.is_empty?
    first.outside(second) + measured(design, rule) { |*limit| first.overlap_check(second, *limit) }.polygons(1)
  end

  def check_separation(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    (first & second) + measured(design, rule) { |*limit| first.separation_check(second, *limit) }.polygons(1)
  end

  def check_enclosure(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    # no enclosure check sees where the second ends inside the first, along it
    ends, sides = second.edges.inside_part(first), first.edges
    measured(design, rule) { |*limit|
      first.enclosed_check(second, *limit) + ends.overlap_check(sides, *limit)
    }.polygons(1)
  end

  def check_contact_overlap(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    ends, contacts = second.edges.inside_part(first), (first & second).edges
    measured(design, rule) { |*limit| ends.overlap_check(contacts, *limit) }.polygons(1)
  end

  def check_exclusion(design, rule)
    first, second = regions(design, rule)
    first & second
  end

  def check_inside(design, rule)
    first, second = regions(design, rule)
    first - second
  end

  def check_area(design, rule)
    least = rule["value_um2"] / design.layout.dbu**2
    design.region(rule["layers"][0]).with_area(0, least.round(half: :even), false)
  end

  # Corners that are too sharp; a convex corner turns right, by 180 degrees less its inner angle.
  def check_angle(design, rule)
    half = design.dbu(Design::MARKER_UM)
    rule["layers"].inject(RBA::Region::new) do |faults, layer|
      faults + design.region(layer).corners(-180.0, rule["value_deg"] - 180.0, half, true, false)
    end
  end

  # No outline, or outlines that are no rectangles, overlap or touch: what touches nothing is not merged with anything.
  def check_outline(design, rule)
    drawn = design.shapes(design.index(rule["layers"][0]))
    return design.everywhere if drawn.is_empty?
    boxes = drawn.each.map { |shape| shape.bbox }
    RBA::Region::new(drawn.merged.each.reject { |die|
      die.is_box? && boxes.count { |box| box.inside?(die.bbox) } == 1
    })
  end

  # Outlines of a size that is not offered; a die turned by 90 degrees is the same die.
  def check_die_size(design, rule)
    sizes = rule["dies_um"].map { |size| size.map { |um| design.dbu(um) }.sort }
    reticle = rule["reticle_um"].map { |um| design.dbu(um) }.sort
    dies = design.region(rule["layers"][0]).each.reject do |die|
      size = [die.bbox.width, die.bbox.height].sort
      larger = [0, 1].any? { |i| size[i] > sizes.map { |offered| offered[i] }.max }
      in_reticle = [0, 1].all? { |i| size[i] <= reticle[i] }
      sizes.include?(size) || (larger && in_reticle)
    end
    RBA::Region::new(dies)
  end

  # What is beyond the outlines' keep-out: a difference, because `outside` misses what straddles it.
  def check_edge(design, rule)
    name = rule["layers"][0]
    inner = design.region(name).sized(-design.dbu(rule["value_um"])).merged
    faults = RBA::Region::new
    design.layout.layer_indexes.each do |index|
      next if index == design.index(name)
      # one rectangle inside another proves all of a layer at once
      outer = RBA::Region::new(design.top.bbox_per_layer(index)) - inner
      faults += design.shapes(index) - inner unless outer.is_empty?
    end
    faults
  end

  # A database unit other than the grid.
  def check_grid(design, rule)
    (design.layout.dbu / rule["value_um"] - 1).abs < 1e-9 ? RBA::Region::new : design.everywhere
  end

  # Shapes on unknown layers.
  def check_known_layers(design, rule)
    known = design.layers.values
    design.layout.layer_indexes.inject(RBA::Region::new) do |faults, index|
      info = design.layout.get_info(index)
      known.include?([info.layer, info.datatype]) ? faults : faults + design.shapes(index) + without_area(design, index)
    end
  end

  # Markers of a layer's texts and of shapes that have no area, such as paths without width.
  def without_area(design, index)
    found, reach = RBA::Region::new, design.dbu(Design::MARKER_UM)
    place = design.top.begin_shapes_rec(index)
    until place.at_end?
      shape = place.shape
      found.insert(shape.bbox.transformed(place.trans).enlarged(reach, reach)) if shape.is_text? || shape.area == 0
      place.next
    end
    found
  end

  # Polygons that cross themselves as they were drawn.
  def check_simple(design, rule)
    design.layout.layer_indexes.inject(RBA::Region::new) do |faults, index|
      drawn = design.shapes(index)
      drawn.merged_semantics = false
      faults + drawn.strange_polygon_check
    end
  end

end
