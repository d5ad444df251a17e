# A layout as the checks use it: flat shapes by layer, as in the class Design of the Python checks, without hierarchy.
# The checks do not change the layout, which may be the one that the user has open.
class Design

  # Half the size of markers of points in micrometres, equal to MARKER_UM of the Python checks.
  MARKER_UM = 0.1

  attr_reader :layout, :top, :layers

  # layers: name to GDS layer and datatype
  def initialize(layout, top, layers)
    @layout, @top, @layers = layout, top, layers
    @regions = {}
  end

  # A length in database units; halves are rounded to even numbers, as in Python.
  def dbu(um)
    (um / @layout.dbu).round(half: :even)
  end

  # A layer's index in the layout, nil if the layout does not have it.
  def index(layer)
    @layout.find_layer(*@layers[layer])
  end

  # Shapes of a layer by its index, flat. Properties are removed, because shapes with different properties do not merge.
  def shapes(index)
    return RBA::Region::new unless index
    region = RBA::Region::new(@top.begin_shapes_rec(index))
    region.remove_properties
    region
  end

  # A layer's shapes cut off at a box.
  def near(layer, box)
    return RBA::Region::new unless index(layer)
    region = RBA::Region::new(RBA::RecursiveShapeIterator::new(@layout, @top, index(layer), box, true))
    region.remove_properties
    region & RBA::Region::new(box)
  end

  # A layer, merged; treat it as read-only.
  def region(layer)
    @regions[layer] ||= shapes(index(layer)).merged
  end

  # Shapes that remain after shrinking and growing a layer by `body_um`: couplers, splitters, gratings, but no guides.
  def bodies(layer, body_um)
    size = dbu(body_um)
    @regions[[layer, body_um]] ||= region(layer).sized(-size).sized(size)
  end

  # A marker over the whole layout; 1 database unit wide if the layout is empty.
  def whole_layout
    box = @top.bbox
    RBA::Region::new(box.empty? || box.area == 0 ? RBA::Box::new(0, 0, 1, 1) : box)
  end

end
