# Checks of edges and shapes, one function per kind of rule; each returns its violations as a region.
# They are the Python checks of optinc, on flat shapes. A rule is a hash with the keys of rules.yml.
module Checks

  ORTHO = RBA::Edges::OrthoEdges

  module_function

  # The edge pairs that violate a rule; the block returns the pairs that are closer than a distance in database units.
  # Pairs with an edge that is not parallel to an axis are measured again at the value minus the rule's tolerance.
  def measured(design, rule)
    metric = [false, RBA::Region::Euclidian, rule["ignore_angle_deg"]]
    value, tolerance = rule["value_um"], rule["angled_tolerance_um"]
    pairs = yield(design.dbu(value), *metric)
    return pairs if tolerance == 0 || pairs.is_empty?
    violations = pairs.with_angle_both(ORTHO, false)
    return violations if violations.count == pairs.count
    violations + yield(design.dbu(value - tolerance), *metric).with_angle(ORTHO, true)
  end

  # A region's shapes merged, 20 at a time: KLayout takes minutes to merge hundreds of shapes that overlap.
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
    # the enclosure check misses ends of the second shape that lie inside the first and parallel to its edge
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

  # Corners that are too sharp; a convex corner turns right by 180 degrees minus its inner angle.
  def check_angle(design, rule)
    half = design.dbu(Design::MARKER_UM)
    rule["layers"].inject(RBA::Region::new) do |violations, layer|
      violations + design.region(layer).corners(-180.0, rule["value_deg"] - 180.0, half, true, false)
    end
  end

  # The whole layout if it has no outline; else outlines that are not rectangles, overlap or touch.
  # An outline that touches no other is one box before and after merging.
  def check_outline(design, rule)
    drawn = design.shapes(design.index(rule["layers"][0]))
    return design.whole_layout if drawn.is_empty?
    boxes = drawn.each.map { |shape| shape.bbox }
    RBA::Region::new(drawn.merged.each.reject { |die|
      die.is_box? && boxes.count { |box| box.inside?(die.bbox) } == 1
    })
  end

  # Outlines whose size is not offered; a die rotated by 90 degrees is the same die.
  def check_die_size(design, rule)
    sizes = rule["dies_um"].map { |size| size.map { |um| design.dbu(um) }.sort }
    reticle = rule["reticle_um"] && rule["reticle_um"].map { |um| design.dbu(um) }.sort
    dies = design.region(rule["layers"][0]).each.reject do |die|
      size = [die.bbox.width, die.bbox.height].sort
      larger = [0, 1].any? { |i| size[i] > sizes.map { |offered| offered[i] }.max }
      in_reticle = reticle && [0, 1].all? { |i| size[i] <= reticle[i] }
      sizes.include?(size) || (larger && in_reticle)
    end
    RBA::Region::new(dies)
  end

  # Shapes beyond the keep-out distance inside the outlines. They are computed as a difference, because `outside` misses
  # shapes that cross the border. A second layer is left out.
  def check_edge(design, rule)
    name = rule["layers"][0]
    left_out = rule["layers"].map { |layer| design.index(layer) }
    inner = design.region(name).sized(-design.dbu(rule["value_um"])).merged
    violations = RBA::Region::new
    design.layout.layer_indexes.each do |index|
      next if left_out.include?(index)
      # a layer whose bounding box is inside has no violation
      outer = RBA::Region::new(design.top.bbox_per_layer(index)) - inner
      violations += design.shapes(index) - inner unless outer.is_empty?
    end
    violations
  end

  # The whole layout if its database unit is not the grid.
  def check_grid(design, rule)
    (design.layout.dbu / rule["value_um"] - 1).abs < 1e-9 ? RBA::Region::new : design.whole_layout
  end

  # Shapes on layers that the process does not have. Texts draw nothing on a mask and may lie on any layer.
  def check_known_layers(design, rule)
    known = design.layers.values
    design.layout.layer_indexes.inject(RBA::Region::new) do |violations, index|
      info = design.layout.get_info(index)
      known.include?([info.layer, info.datatype]) ? violations : violations + design.shapes(index) + without_area(design, index)
    end
  end

  # Markers around a layer's shapes that have no area, such as paths without width; texts are no shapes.
  def without_area(design, index)
    markers, reach = RBA::Region::new, design.dbu(Design::MARKER_UM)
    place = design.top.begin_shapes_rec(index)
    until place.at_end?
      shape = place.shape
      markers.insert(shape.bbox.transformed(place.trans).enlarged(reach, reach)) if !shape.is_text? && shape.area == 0
      place.next
    end
    markers
  end

  # Polygons that cross themselves as they were drawn.
  def check_simple(design, rule)
    design.layout.layer_indexes.inject(RBA::Region::new) do |violations, index|
      drawn = design.shapes(index)
      drawn.merged_semantics = false
      violations + drawn.strange_polygon_check
    end
  end

end
