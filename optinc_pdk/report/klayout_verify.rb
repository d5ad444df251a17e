# The menu entry "Verify": runs `optinc verify` on the layout that is shown, and opens its marker databases.
require "tmpdir"

class OptincVerify

  # Endings of the marker databases that `optinc verify` writes.
  DATABASES = [".verify.drc.lyrdb", ".verify.lvs.lyrdb"]
  # Exit codes with which it has checked the layout: all checks pass, one fails.
  CHECKED = {0 => "pass", 1 => "fail"}
  CALL = "from optinc_pdk.cli import main; main()"

  def initialize(settings)
    @python, @process = settings["python"], settings["process"]
  end

  def run
    view = RBA::LayoutView::current
    shown = view && view.active_cellview
    return fail("No layout is shown; open one first.") unless shown && shown.is_valid?
    layout, netlist = files(shown)
    code, output = execute(["verify", layout, *netlist, "--process", @process])
    return fail("optinc verify ended with exit code #{code}.", output) unless CHECKED[code]
    open_databases(view, layout.chomp(File.extname(layout)))
    text = [*("Not as saved; checked was the copy #{layout}" if layout != shown.filename), output].join("\n\n")
    RBA::MessageBox::info("optinc verify: #{CHECKED[code]}", text, RBA::MessageBox::Ok)
  rescue Errno::ENOENT, Errno::EACCES
    fail("#{@python} cannot be run, the Python with which this entry was installed. Install it again: " \
         "optinc process klayout install --process #{@process}")
  end

  private

  # The file of the layout, without a netlist, because the command finds the one beside it. If the layout is not as its
  # file, a copy in a temporary folder and the netlist beside the file.
  def files(shown)
    file = shown.filename
    return [file, []] if File.file?(file) && !shown.is_dirty?
    ending = File.extname(file).downcase == ".oas" ? ".oas" : ".gds"
    stem = file.empty? ? shown.layout.top_cells.map(&:name).first.to_s : File.basename(file, ".*")
    copy = File.join(Dir.mktmpdir("optinc-"), stem.gsub(/[^\w.$-]/, "_") + ending)
    options = RBA::SaveLayoutOptions::new
    options.set_format_from_filename(copy)
    shown.layout.write(copy, options)
    netlist = file.chomp(File.extname(file)) + ".pic.yml"
    [copy, File.file?(netlist) ? [netlist] : []]
  end

  # Runs the command, and returns its exit code and its output. The window stays alive; its progress bar cancels the run.
  def execute(arguments)
    command = [@python, "-u", "-P", "-c", CALL, *arguments]
    # an application with a Python of its own may have set its place
    pipe = IO.popen({"PYTHONHOME" => nil}, command, :err => [:child, :out])
    output = read(pipe).force_encoding("UTF-8").scrub
    pipe.close
    [$?.exitstatus, output]
  ensure
    if pipe && !pipe.closed?
      Process.kill("TERM", pipe.pid)
      pipe.close
    end
  end

  def read(pipe)
    output = "".b
    progress = RBA::AbsoluteProgress::new("optinc verify")
    progress.format = "%.0f s"
    begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    loop do
      ready = IO.select([pipe], nil, nil, 0.1)
      progress.set((Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun).to_i, true)
      output << pipe.readpartial(65536) if ready
    end
  rescue EOFError
    output
  ensure
    progress._destroy if progress
  end

  # Opens the databases beside the report, in place of those of an earlier run, and shows the first that has markers.
  def open_databases(view, stem)
    numbers = DATABASES.map { |ending| open_database(view, stem + ending) }.compact
    number = numbers.find { |one| view.rdb(one).num_items > 0 } || numbers.first
    view.show_rdb(number, view.active_cellview_index)
  end

  # Returns the number of the database in the view; nil if the file is missing, as that of LVS without a netlist.
  def open_database(view, path)
    # a database that is loaded gets the name of its file
    old = (0 ... view.num_rdbs).find { |one| view.rdb(one).name == File.basename(path) }
    unless File.file?(path)
      view.remove_rdb(old) if old
      return nil
    end
    database = RBA::ReportDatabase::new
    database.load(path)
    old ? view.replace_rdb(old, database) : view.add_rdb(database)
  end

  def fail(reason, output = "")
    RBA::MessageBox::critical("optinc verify", [reason, *(output unless output.empty?)].join("\n\n"), RBA::MessageBox::Ok)
  end

end

