# A layout as the checks see it: flat shapes by layer. The same as signoff/gds.py, but without hierarchy.
# Nothing here or in the checks changes the layout, which may be the one that the user has open.
class Design

  # How far markers of points reach, in micrometres: MARKER_UM of signoff/checks.py.
  MARKER_UM = 0.1

  attr_reader :layout, :top, :layers

  # layers: name to GDS layer and datatype
  def initialize(layout, top, layers)
    @layout, @top, @layers = layout, top, layers
    @regions = {}
  end

  # A length in database units; Python rounds halves to even numbers too.
  def dbu(um)
    (um / @layout.dbu).round(half: :even)
  end

  # A layer's index in the layout, nil where the layout does not have it.
  def index(layer)
    @layout.find_layer(*@layers[layer])
  end

  # The shapes of a layer's index, flat; shapes with different properties would not merge.
  def shapes(index)
    return RBA::Region::new unless index
    found = RBA::Region::new(@top.begin_shapes_rec(index))
    found.remove_properties
    found
  end

  # What a layer has inside a box.
  def near(layer, box)
    return RBA::Region::new unless index(layer)
    found = RBA::Region::new(RBA::RecursiveShapeIterator::new(@layout, @top, index(layer), box, true))
    found.remove_properties
    found & RBA::Region::new(box)
  end

  # A layer, merged; treat it as read-only.
  def region(layer)
    @regions[layer] ||= shapes(index(layer)).merged
  end

  # What survives a shrink and a growth by `body_um`: couplers, splitters, gratings, but no guide.
  def bodies(layer, body_um)
    size = dbu(body_um)
    @regions[[layer, body_um]] ||= region(layer).sized(-size).sized(size)
  end

  # A marker over the whole layout, never empty.
  def everywhere
    box = @top.bbox
    RBA::Region::new(box.empty? || box.area == 0 ? RBA::Box::new(0, 0, 1, 1) : box)
  end

end
