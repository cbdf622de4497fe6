package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/chromesink"
	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/internal/ndjsonsink"
	"github.com/cudatrace/cudatrace/convert/internal/parquetsink"
	"github.com/cudatrace/cudatrace/convert/internal/pfsink"
	"github.com/cudatrace/cudatrace/convert/internal/pprofsink"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// UISlices is about the largest number of slices that Perfetto's UI loads. Its 32-bit engine takes 2.7 GB
// for 3.7 million, and 5.5 million end it.
const UISlices = 4_000_000

// TraceOptions are the options of a trace. The zero TraceOptions convert everything and
// compress with gzip.
type TraceOptions struct {
	Options
	Format   *Format // nil for the first of Formats
	Compress output.Compression

	// Run is the run that tables belong to. "" is that of each log.
	Run string

	// Beside is a sink that gets the events of the trace too.
	Beside timeline.Sink
}

// A Format is a form of the files that logs are converted to.
type Format struct {
	Name     string
	About    string   // what the files are, and for whom
	Files    string   // which files there are, a sentence; "" for a single one
	Suffixes []Suffix // of names of files; the first that fits the compression is that of a name that nobody chose

	Written     string // what was made, with its verb
	Unit, Units string // what a filter counts

	Text   bool                   // the output is text, unless it is compressed
	Folder bool                   // the output is always a folder
	Sized  bool                   // the output can be compressed, and has slices
	Steps  bool                   // it shows which ranges are the steps of Filter.Steps
	Run    func(name string) bool // reports whether a name can be TraceOptions.Run; nil where no run is named
	Memory int64                  // bytes that are needed beside the memory of a conversion

	draws    bool                     // the files show which kernels are parts of one collective, or paths through them
	each     int64                    // see bound
	most     int                      // files, all of which are open until the last one is whole
	per      string                   // what has a file, and what to do about too many
	group    func(name string) string // names the folder of several files, from the name of a single one
	manifest string                   // see [outfile.Options]

	// new returns a sink, which makes its files with create.
	new func(c *conversion, o *TraceOptions, create output.Creator) (counting, error)
}

// A Suffix is the end of the names of a format's files.
type Suffix struct {
	Text     string
	Compress output.Compression // of files with such names, "" for any
}

// Formats are the formats. The first one is the default.
var Formats = []*Format{
	{
		Name:     "perfetto",
		About:    "a trace for https://ui.perfetto.dev",
		Suffixes: []Suffix{{Text: ".pftrace"}, {".pftrace.gz", output.Gzip}, {Text: ".perfetto-trace"}},
		Written:  "trace was written", Unit: "slice", Units: "slices",
		Sized: true,
		draws: true, each: 2048, most: 1,
		new: newPerfetto,
	},
	{
		Name:  "chrome",
		About: "JSON as PyTorch's profiler writes it, for the tools that read that",
		Files: "Chrome JSON has one file a process, NAME.pt.trace.json.gz; several are in a folder, NAME.pt.trace.",
		// Tools recognise a trace of PyTorch's profiler by the first two.
		Suffixes: []Suffix{
			{".pt.trace.json.gz", output.Gzip}, {".pt.trace.json", output.None}, {".json.gz", output.Gzip},
			{".json", output.None},
		},
		Written: "trace was written", Unit: "slice", Units: "slices",
		Text: true, Sized: true, Steps: true,
		draws: true, each: 8192, most: 256, per: "one for each process: choose processes", group: chromeFolder,
		new: newChrome,
	},
	{
		Name:     "parquet",
		About:    "tables for SQL over many runs",
		Files:    "Parquet makes a folder of tables, NAME.parquet, that DuckDB, ClickHouse, Spark and Trino read.",
		Suffixes: []Suffix{{Text: ".parquet"}},
		Written:  "tables were written", Unit: "event", Units: "events", // an event may be several rows
		Folder: true, Steps: true,
		// engines read it in a folder's name
		Run:    func(name string) bool { return name != "" && name == joined.Plain(name) },
		Memory: parquetsink.Budget + 56<<20, // rows that wait, and columns that are being encoded
		each:   2048, most: 8192, per: "up to seventeen for each process with a rank: convert fewer logs at a time",
		manifest: parquetsink.Manifest,
		new:      newParquet,
	},
	{
		Name:     "ndjson",
		About:    "the rows of the tables as lines of JSON, for jq and scripts",
		Suffixes: []Suffix{{Text: ".ndjson"}},
		Written:  "rows were written", Unit: "row", Units: "rows",
		Text: true, Steps: true,
		Run:  func(name string) bool { return name != "" && name == joined.Plain(name) },
		each: 8192, most: 1,
		new: newNDJSON,
	},
	{
		Name:     "pprof",
		About:    "a profile of GPU time by stack, for go tool pprof, Pyroscope and Parca",
		Suffixes: []Suffix{{Text: ".pb.gz"}, {Text: ".pprof"}},
		Written:  "profile was written", Unit: "sample", Units: "samples",
		Memory: 64 << 20, // stacks, until all are known
		each:   64, most: 1,
		new: newPprof,
	},
}

// FormatNamed returns the format of a name, nil without one.
func FormatNamed(name string) *Format {
	for _, f := range Formats {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// FormatOf returns the format whose files have names like a path, and the compression that the suffix stands for, ""
// for any; nil where no format has such names.
func FormatOf(path string) (*Format, output.Compression) {
	for _, f := range Formats {
		for _, s := range f.Suffixes {
			if strings.HasSuffix(path, s.Text) {
				return f, s.Compress
			}
		}
	}
	return nil, ""
}

// Suffix is the suffix of a name that nobody chose.
func (f *Format) Suffix(c output.Compression) string {
	i := slices.IndexFunc(f.Suffixes, func(s Suffix) bool { return s.Compress == "" || s.Compress == c })
	return f.Suffixes[max(i, 0)].Text
}

// Target is the place of a trace at a path. A path that a person named may be a device or a pipe.
func (o *TraceOptions) Target(path string, named bool) (*outfile.Target, error) {
	f := o.format()
	place := outfile.Options{Named: named, Special: named && !f.Folder, Folder: f.group, Manifest: f.manifest}
	return outfile.At(path, place)
}

// format is the format of the trace.
func (o *TraceOptions) format() *Format { return cmp.Or(o.Format, Formats[0]) }

// A FilesError is the error of more files than a format may have.
type FilesError struct{ Format *Format }

func (e FilesError) Error() string {
	return fmt.Sprintf("it would be more than %d files, %s", e.Format.most, e.Format.per)
}

// write writes a trace, whose files create makes.
func (c *conversion) write(o TraceOptions, create output.Creator) ([]Summary, error) {
	files := c.newFiles(&o)
	sink, err := o.format().new(c, &o, files.creator(create))
	if err != nil {
		return nil, err
	}
	if o.Beside != nil {
		sink = &both{sink, o.Beside}
	}
	all, err := c.watch(sink)
	return all, files.close(err)
}

// The traceFiles are the files of a trace that grow.
type traceFiles struct {
	options *TraceOptions
	bound   func(io.Writer) io.Writer
	n       int
	open    []io.WriteCloser
}

func (c *conversion) newFiles(o *TraceOptions) *traceFiles {
	c.draws = o.format().draws
	return &traceFiles{options: o, bound: c.bound(o.format().each)}
}

// creator returns a creator of compressed files. All together have a largest size and a largest number.
func (t *traceFiles) creator(create output.Creator) output.Creator {
	return func(name string) (io.Writer, error) {
		f := t.options.format()
		if t.n++; t.n > f.most {
			return nil, FilesError{f}
		}
		w, err := create(name)
		if err != nil || !f.Sized {
			return t.bound(w), err
		}
		compressed := t.options.Compress.NewWriter(w)
		t.open = append(t.open, compressed)
		return t.bound(compressed), nil
	}
}

// close ends the files of a trace. It returns the trace's error, given that of writing.
func (t *traceFiles) close(err error) error {
	for _, f := range t.open {
		if closing := f.Close(); closing != nil && (err == nil || isSinkError(err)) {
			err = &SinkError{errors.Join(err, closing)}
		}
	}
	return err
}

func newPerfetto(c *conversion, o *TraceOptions, create output.Creator) (counting, error) {
	w, err := create("")
	if err != nil {
		return nil, err
	}
	return pfsink.New(w, pfsink.Options{PieceBytes: o.Compress.PieceBytes(), Paths: !c.Filter.Gappy()}), nil
}

// newChrome returns a sink with a file for each process.
func newChrome(c *conversion, o *TraceOptions, create output.Creator) (counting, error) {
	chrome := chromesink.Options{Paths: !c.Filter.Gappy(), Open: func(p *timeline.Process) (io.Writer, error) {
		return create(chromeName(p) + o.Format.Suffix(o.Compress))
	}}
	if s := selection.New(selection.Options{Name: o.Filter.Name, Shortest: uint64(o.Filter.MinDuration)}); s != nil {
		chrome.Shown = func(c *timeline.Call) bool {
			return s.Slice(&timeline.Slice{Function: c.Function, Start: c.Start, End: c.End})
		}
	}
	return chromesink.New(chrome), nil
}

// chromeFolder is the name of the folder of several processes' files, from the name of a single file.
func chromeFolder(name string) string {
	if folder, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".json"); ok && folder != "" {
		return folder
	}
	return name
}

// chromeName is the name of a process's file beside those of other processes, in Kineto's form: HOST_PID, with the rank
// in front where there is one. It has no character that means something to a shell, a folder or a URL.
func chromeName(p *timeline.Process) string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, p.Host)
	host = host[:min(len(host), 64)]
	rank := ""
	if p.Rank.Known {
		rank = fmt.Sprintf("rank%d_", p.Rank.Number)
	}
	return fmt.Sprintf("%s%s_%d", rank, cmp.Or(host, "process"), hostPID(p.PID))
}

func newParquet(c *conversion, o *TraceOptions, create output.Creator) (counting, error) {
	return c.tables(o, parquetsink.New(parquetsink.Budget, create)), nil
}

func newNDJSON(c *conversion, o *TraceOptions, create output.Creator) (counting, error) {
	w, err := create("")
	if err != nil {
		return nil, err
	}
	return c.tables(o, ndjsonsink.New(w)), nil
}

func newPprof(_ *conversion, _ *TraceOptions, create output.Creator) (counting, error) {
	w, err := create("")
	if err != nil {
		return nil, err
	}
	return pprofsink.New(w, pprofsink.Options{HostPID: hostPID}), nil
}

// hostPID makes a number that a process or a thread has in a timeline that of its host.
func hostPID(number uint32) uint32 { return number & (1<<pidBits - 1) }

// tables returns a sink that makes the rows of the tables.
func (c *conversion) tables(o *TraceOptions, w joined.Writer) counting {
	c.Collectives = true // for the costs of findings
	return joined.New(joined.Options{
		Run:     o.Run,
		Part:    c.Filter.limits(),
		Gaps:    c.Filter.Gappy(),
		Named:   !c.Filter.Steps.None(),
		HostPID: hostPID,
		Outcome: c.outcome,
	}, w)
}
