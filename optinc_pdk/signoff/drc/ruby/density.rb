# Density rules: the share of each window that a layer covers, window by window.
module Checks

  # Relative error allowed for areas, equal to ROUNDING of the Python check.
  ROUNDING = 1e-12

  module_function

  # Windows in which the share of a layer is above or below the rule's limits.
  def check_density(design, rule)
    layer, outline = rule["layers"]
    size, step = design.dbu(rule["window_um"]), design.dbu(rule["step_um"])
    drawn, violations = design.region(layer).bbox, RBA::Region::new
    design.region(outline).each do |die|
      box = die.bbox
      columns, rows = spans(box.left, box.right, size, step), spans(box.bottom, box.top, size, step)
      if rule["least"] == 0
        # windows without the layer cannot exceed the upper limit
        next if drawn.empty?
        columns = columns.select { |left, right| right > drawn.left && left < drawn.right }
        rows = rows.select { |bottom, top| top > drawn.bottom && bottom < drawn.top }
      end
      columns.product(rows) do |(left, right), (bottom, top)|
        window = RBA::Box::new(left, bottom, right, top)
        violations.insert(window) unless covered?(design, layer, window, rule["least"], rule["most"])
      end
    end
    violations
  end

  # Start and end of the windows along one axis of a die; the last one ends at the die's edge.
  def spans(low, high, window, step)
    size = [window, high - low].min
    starts = (low..high - size).step(step).to_a | [high - size]
    starts.map { |start| [start, start + size] }
  end

  # Whether the share of a window that a layer covers is between two limits.
  def covered?(design, layer, window, least, most)
    cut = design.near(layer, window)
    low, high, area = least * window.area, most * window.area, cut.area
    # cutting rounds the ends of slanted edges, by less than a database unit
    rounding = cut.non_rectilinear.is_empty? ? 0 : cut.perimeter
    near = [low, high].any? { |limit| (area - limit).abs <= rounding }
    area = exact_area(design.region(layer).interacting(RBA::Region::new(window)), window) if rounding > 0 && near
    area >= low * (1 - ROUNDING) && area <= high * (1 + ROUNDING)
  end

  # The area of a region inside a window, without rounding to the grid: the sum of the signed areas between each edge
  # and the bottom of the window.
  def exact_area(region, window)
    total = 0.0
    region.edges.each do |edge|
      (x, y), (u, v) = [edge.p1, edge.p2].map { |p| [p.x, p.y] }.sort
      left, right = [x, window.left].max, [u, window.right].min
      next if left >= right
      slope = (v - y).fdiv(u - x)
      # where the edge crosses the bottom and the top of the window
      cuts = slope == 0 ? [] : [window.bottom, window.top].map { |level| x + (level - y) / slope }
      places = [left, *cuts.select { |place| place > left && place < right }.sort, right]
      heights = places.map { |place| (y + slope * (place - x)).clamp(window.bottom, window.top) - window.bottom }
      below = places.each_cons(2).zip(heights.each_cons(2)).sum { |(a, b), (c, d)| (b - a) * (c + d) / 2.0 }
      # contours run clockwise, so a region is below its edges that go right
      total += edge.p1.x < edge.p2.x ? below : -below
    end
    total
  end

end
