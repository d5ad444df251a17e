# How much of a window a layer covers: the check of signoff/density.py, window by window.
module Checks

  # ROUNDING of signoff/density.py
  ROUNDING = 1e-12

  module_function

  # Windows with too much or too little of a layer.
  def check_density(design, rule)
    layer, outline = rule["layers"]
    size, step = design.dbu(rule["window_um"]), design.dbu(rule["step_um"])
    drawn, faults = design.region(layer).bbox, RBA::Region::new
    design.region(outline).each do |die|
      box = die.bbox
      columns, rows = spans(box.left, box.right, size, step), spans(box.bottom, box.top, size, step)
      if rule["least"] == 0
        # an empty window has not too much
        next if drawn.empty?
        columns = columns.select { |left, right| right > drawn.left && left < drawn.right }
        rows = rows.select { |bottom, top| top > drawn.bottom && bottom < drawn.top }
      end
      columns.product(rows) do |(left, right), (bottom, top)|
        window = RBA::Box::new(left, bottom, right, top)
        faults.insert(window) unless covered?(design, layer, window, rule["least"], rule["most"])
      end
    end
    faults
  end

  # Where windows begin and end along one axis of a die; the last one ends with the die.
  def spans(low, high, window, step)
    size = [window, high - low].min
    starts = (low..high - size).step(step).to_a | [high - size]
    starts.map { |start| [start, start + size] }
  end

  # Whether a layer covers a share of a window between two limits.
  def covered?(design, layer, window, least, most)
    cut = design.near(layer, window)
    low, high, area = least * window.area, most * window.area, cut.area
    # cutting rounds the ends of slanted edges, by less than a database unit
    doubt = cut.non_rectilinear.is_empty? ? 0 : cut.perimeter
    near = [low, high].any? { |limit| (area - limit).abs <= doubt }
    area = exact_area(design.region(layer).interacting(RBA::Region::new(window)), window) if doubt > 0 && near
    area >= low * (1 - ROUNDING) && area <= high * (1 + ROUNDING)
  end

  # The area of a region inside a window, without rounding: what lies between each edge and the window's bottom.
  def exact_area(region, window)
    total = 0.0
    region.edges.each do |edge|
      (x, y), (u, v) = [edge.p1, edge.p2].map { |p| [p.x, p.y] }.sort
      left, right = [x, window.left].max, [u, window.right].min
      next if left >= right
      slope = (v - y).fdiv(u - x)
      # where it crosses the window's bottom and top
      cuts = slope == 0 ? [] : [window.bottom, window.top].map { |level| x + (level - y) / slope }
      places = [left, *cuts.select { |place| place > left && place < right }.sort, right]
      heights = places.map { |place| (y + slope * (place - x)).clamp(window.bottom, window.top) - window.bottom }
      below = places.each_cons(2).zip(heights.each_cons(2)).sum { |(a, b), (c, d)| (b - a) * (c + d) / 2.0 }
      # contours turn right: a region lies under its edges that go right
      total += edge.p1.x < edge.p2.x ? below : -below
    end
    total
  end

end
