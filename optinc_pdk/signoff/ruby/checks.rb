# Checks between edges and shapes, one function per kind of rule; each returns its faults as a region.
# They are those of signoff/checks.py, on flat shapes. A rule is a hash with the keys of rules.yml.
module Checks

  ORTHO = RBA::Edges::OrthoEdges

  module_function

  # The edge pairs that are faults: rounding is forgiven where an edge is not parallel to an axis.
  def measured(design, rule, pairs)
    tolerance = rule["angled_tolerance_um"]
    return pairs if tolerance == 0 || pairs.is_empty?
    angled = pairs.with_angle(ORTHO, true)
    faults = pairs.with_angle_both(ORTHO, false)
    faults + angled.with_distance(0, design.dbu(rule["value_um"] - tolerance), false)
  end

  # What every measurement between edges is given: whole edges, metric and the angle from which edges do not face.
  def metric(design, rule)
    [design.dbu(rule["value_um"]), false, RBA::Region::Euclidian, rule["ignore_angle_deg"]]
  end

  def regions(design, rule)
    rule["layers"].map { |name| design.region(name) }
  end

  def check_width(design, rule)
    pairs = design.region(rule["layers"][0]).width_check(*metric(design, rule))
    measured(design, rule, pairs).polygons(1)
  end

  def check_space(design, rule)
    pairs = design.region(rule["layers"][0]).space_check(*metric(design, rule))
    measured(design, rule, pairs).polygons(1)
  end

  def check_overlap(design, rule)
    first, second = regions(design, rule)
    return first.dup if first.is_empty? || second.is_empty?
    pairs = first.overlap_check(second, *metric(design, rule))
    first.outside(second) + measured(design, rule, pairs).polygons(1)
  end

  def check_separation(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    pairs = first.separation_check(second, *metric(design, rule))
    (first & second) + measured(design, rule, pairs).polygons(1)
  end

  def check_enclosure(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    pairs = first.enclosed_check(second, *metric(design, rule))
    # no enclosure check sees where the second ends inside the first, along it
    pairs += second.edges.inside_part(first).overlap_check(first.edges, *metric(design, rule))
    measured(design, rule, pairs).polygons(1)
  end

  def check_contact_overlap(design, rule)
    first, second = regions(design, rule)
    return RBA::Region::new if first.is_empty? || second.is_empty?
    entries = second.edges.inside_part(first)
    pairs = entries.overlap_check((first & second).edges, *metric(design, rule))
    measured(design, rule, pairs).polygons(1)
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

  # Outlines of a size that is not offered.
  def check_die_size(design, rule)
    sizes = rule["dies_um"].map { |size| size.map { |um| design.dbu(um) } }
    reticle = rule["reticle_um"].map { |um| design.dbu(um) }
    dies = design.region(rule["layers"][0]).each.reject do |die|
      size = [die.bbox.width, die.bbox.height]
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
      known.include?([info.layer, info.datatype]) ? faults : faults + design.shapes(index)
    end
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
