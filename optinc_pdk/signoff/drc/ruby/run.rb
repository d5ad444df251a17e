# Runs the rules one after the other and reports violations as `optinc drc` does: a category for each rule, also for
# rules without violations, with a marker around each violation.
class Run

  def initialize(design, rules, left_out)
    @design, @rules, @left_out = design, rules, left_out
  end

  # Adds all violations to a report database and prints their number.
  def into(report)
    cell = report.create_cell(@design.top.name)
    report.top_cell_name = @design.top.name
    totals = Hash::new(0)
    @rules.each do |rule|
      category = report.create_category(rule["id"])
      category.description = rule["description"]
      polygons = markers(Checks.public_send("check_#{rule["kind"]}", @design, rule))
      polygons.each { |marker| report.create_item(cell, category).add_value(RBA::RdbItemValue::new(marker)) }
      totals[rule["severity"]] += polygons.length
      puts "#{rule["id"]}: #{polygons.length} (#{rule["severity"]})" unless polygons.empty?
    end
    @left_out.each { |rule| puts "#{rule["id"]}: not in this deck: needs the bias; run optinc drc --bias" }
    puts "#{totals['error']} violations and #{totals['warning']} warnings of #{@rules.length} rules"
  end

  private

  # Violations merged and sorted, in micrometres; violations that touch are one marker.
  def markers(violations)
    sorted = Checks.united(violations).each.sort { |one, other| one < other ? -1 : (other < one ? 1 : 0) }
    sorted.map { |polygon| polygon.to_dtype(@design.layout.dbu) }
  end

end

# The layout in a file, which must have exactly one top cell.
def read_design(path, layers)
  options = RBA::LoadLayoutOptions::new
  options.properties_enabled = false
  layout = RBA::Layout::new
  layout.read(path, options)
  tops = layout.top_cells
  raise "#{path}: has #{tops.length} top cells; a chip has exactly one" if tops.length != 1
  Design::new(layout, tops[0], layers)
end

# The cell shown in the active view.
def shown_design(layers)
  shown = RBA::CellView::active
  raise "no layout: open one, or give -rd input=FILE -rd report=FILE" unless shown.is_valid?
  Design::new(shown.layout, shown.cell, layers)
end

design = $input ? read_design($input, LAYERS) : shown_design(LAYERS)
view = $input ? nil : RBA::LayoutView::current
raise "#{$input}: no report to write; give -rd report=FILE" unless view || $report
report = RBA::ReportDatabase::new("DRC")
report.original_file = File.basename($input || RBA::CellView::active.filename)
# the marker browser uses the generator to run this script again
report.generator = _generator
Run::new(design, RULES, LEFT_OUT).into(report)
if view
  number = _rdb_index ? view.replace_rdb(_rdb_index, report) : view.add_rdb(report)
  view.show_rdb(number, view.active_cellview_index)
end
report.save($report) if $report
