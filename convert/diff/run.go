package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Limits of what is read of a run.
const (
	maxBytes = 256 << 20 // of its JSON
	maxRows  = 20_000    // of a report; stats writes half as many
)

// A Run has the figures of one run of a program.
type Run struct {
	Name      string
	Files     []string // of a run in several files
	Logs      []stats.Log
	Functions []string // that were probed
	reports   map[string]*report
	reasons   map[string]string // why a report has no rows
	threads   bool              // several threads of a process allocate memory
	steps     string            // key of the steps with most time
}

// A report has the rows of a report of a run by their keys.
type report struct {
	columns []string
	rows    map[string]*row
}

// A row has values for columns, NaN for one that is not known.
type row struct {
	name   string
	label  string // the name, with what else tells rows apart
	values []float64
}

// value returns the value of a column in a row. Where the row is not there, nothing was counted.
func (r *report) value(key, column string) float64 {
	found := r.rows[key]
	if found == nil && isAdded(column) {
		return 0
	}
	i := slices.Index(r.columns, column)
	if found == nil || i < 0 || i >= len(found.values) {
		return math.NaN()
	}
	return found.values[i]
}

// A Reader reads runs.
type Reader struct {
	wanted []string          // reports to keep
	names  map[string]string // each name once, of all runs
}

// NewReader returns a reader that keeps some reports of each run.
func NewReader(wanted []string) *Reader { return &Reader{wanted, make(map[string]string)} }

// Read reads the JSON of stats.
func (r *Reader) Read(from io.Reader, name string) (*Run, error) {
	limited := &io.LimitedReader{R: from, N: maxBytes}
	run := runReader{r, &Run{Name: name, reports: make(map[string]*report)}, json.NewDecoder(limited)}
	err := run.object(run.member)
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("%s has more than %s", name, figures.Bytes(maxBytes))
	case err != nil:
		return nil, fmt.Errorf("%s is no JSON of 'cudatrace stats': %w", name, err)
	case run.Logs == nil:
		return nil, fmt.Errorf(`%s is no JSON of 'cudatrace stats': it has no "logs"`, name)
	}
	run.steps = run.mainSteps()
	return run.Run, nil
}

// A runReader reads one run.
type runReader struct {
	*Reader
	*Run
	json *json.Decoder
}

// object reads an object, and calls member for each of its members.
func (r *runReader) object(member func(string) error) error {
	if err := r.expect('{'); err != nil {
		return err
	}
	for r.json.More() {
		name, err := r.json.Token()
		if err != nil {
			return err
		}
		if err := member(name.(string)); err != nil { // the decoder takes no other names
			return err
		}
	}
	return r.expect('}')
}

func (r *runReader) expect(want json.Delim) error {
	got, err := r.json.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v in the place of %v", got, want)
	}
	return err
}

// version is the version of the JSON that the package understands.
const version = 1

func (r *runReader) member(name string) error {
	switch name {
	case "version":
		v := 0
		if err := r.json.Decode(&v); err != nil {
			return err
		}
		if v != version {
			return fmt.Errorf("its version is %d, not %d", v, version)
		}
		return nil
	case "logs":
		return r.json.Decode(&r.Logs)
	case "functions":
		err := r.json.Decode(&r.Functions)
		slices.Sort(r.Functions)
		return err
	case "reasons":
		return r.json.Decode(&r.reasons)
	case "left_out":
		return r.leftOut()
	}
	if slices.Contains(r.wanted, name) {
		return r.report(name)
	}
	var skipped json.RawMessage
	return r.json.Decode(&skipped)
}

// leftOut refuses a report that --top cut. The report of what was not freed never has all rows.
func (r *runReader) leftOut() error {
	var rows map[string]int
	if err := r.json.Decode(&rows); err != nil {
		return err
	}
	for name := range rows {
		if r.reports[name] != nil && name != "unfreed" {
			return fmt.Errorf("it lacks rows of %s: write it without --top", name)
		}
	}
	return nil
}

// report reads the rows of a report.
func (r *runReader) report(name string) error {
	if err := r.expect('['); err != nil {
		return err
	}
	all := &report{rows: make(map[string]*row)}
	r.reports[name] = all
	for n := 0; r.json.More(); n++ {
		if n == maxRows {
			return fmt.Errorf("%s has more than %s rows", name, figures.Group(maxRows))
		}
		var cells map[string]any
		if err := r.json.Decode(&cells); err != nil {
			return err
		}
		r.add(all, name, cells)
	}
	return r.expect(']')
}

// add adds a row to a report. Rows of one key, such as those of several processes, are added up.
func (r *runReader) add(to *report, name string, cells map[string]any) {
	if name == "ranks" && cells["rank"] == nil {
		return // a process of no distributed program: devices has what it did
	}
	for column := range cells {
		if !slices.Contains(to.columns, column) {
			to.columns = append(to.columns, column)
		}
	}
	values := make([]float64, len(to.columns))
	for i, column := range to.columns {
		values[i] = number(cells[column])
	}
	r.threads = r.threads || name == "memory" && number(cells["threads"]) > 1
	key := r.once(rowKey(name, cells))
	if before := to.rows[key]; before != nil {
		sum(to.columns, before, values)
		return
	}
	plain := text(cells["name"])
	switch name {
	case "python": // runs share functions, not lines
		plain = pythonOf(cells)
	case "nvtx":
		plain = rangeOf(plain)
	}
	to.rows[key] = &row{r.once(plain), r.once(label(name, cells)), values}
}

// once returns a text that equal texts share.
func (r *Reader) once(s string) string {
	if known, ok := r.names[s]; ok {
		return known
	}
	r.names[s] = s
	return s
}

func number(cell any) float64 {
	if v, ok := cell.(float64); ok {
		return v
	}
	return math.NaN()
}

func text(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(cell)
}

// keys are the columns that tell the rows of a report apart and are the same in each run; PIDs
// are not. A report that is not here has its names for keys.
var keys = map[string][]string{
	"kernels": {"name", "signature"}, "kernel_shapes": {"name", "signature", "grid", "block"},
	kernelPython: {"name", "signature", "file", "function"}, "python": {"file", "function"},
	"memory_holders": {"name", "gpu", "library"}, "calls": {"name", "library"},
	"callers": {"name", "library", "caller"}, "copies": {"name", "from", "to", "peer"}, "waits": {"name", "waited_for"},
	"devices": {"gpu"}, "streams": {"name", "gpu"}, "memory": {"name", "gpu"}, "errors": {"name", "error", "library"},
	"nvtx": {"name", "domain", "kind"}, "idle": {"name", "what", "gpu"}, "findings": {"name", "gpu", "rank"},
	"operators": {"name", "kind"}, "ranks": {"rank"}, stepKinds: {"name", "source"}, "collectives": {"name", "ranks"},
	"metrics": {"metric", "name", "source", "gpu"},
}

// rowKey is the key of a row.
func rowKey(report string, cells map[string]any) string {
	columns := keys[report]
	if columns == nil {
		columns = []string{"name"}
	}
	parts := make([]string, len(columns))
	for i, column := range columns {
		parts[i] = text(cells[column])
		switch {
		case column == "file":
			parts[i] = fileName(parts[i]) // two versions of a program lie in different folders
		case report == "nvtx" && column == "name":
			parts[i] = rangeOf(parts[i])
		}
	}
	return strings.Join(parts, "\x00")
}

// rangeOf is the name of an NVTX range without the number behind it: "step 7" and "step 8" are one row.
func rangeOf(name string) string {
	if stem, number := pattern.Stem(name); number != pattern.Counted {
		return stem
	}
	return name
}

// label is the name of a row for people.
func label(report string, cells map[string]any) string {
	name := text(cells["name"])
	switch report {
	case "copies":
		return fmt.Sprintf("%s %s to %s", name, cmp.Or(text(cells["from"]), "unknown"), cmp.Or(text(cells["to"]), "unknown"))
	case "python":
		return pythonOf(cells)
	case kernelPython:
		return name + " (" + pythonOf(cells) + ")"
	case "errors":
		return name + ": " + text(cells["error"])
	case "nvtx":
		name = rangeOf(name)
		if domain := text(cells["domain"]); domain != "" {
			return domain + ": " + name
		}
	case "ranks":
		return "rank " + text(cells["rank"])
	case findings:
		return cmp.Or(text(cells["title"]), name)
	case "memory", "metrics", "streams":
		if cells["gpu"] != nil {
			return name + " of GPU " + text(cells["gpu"])
		}
	}
	return name
}

// kernelPython is the report of kernels by Python function.
const kernelPython = "kernel_python"

// fileName is the name of a file without its folder.
func fileName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// pythonOf names the Python function of a row.
func pythonOf(cells map[string]any) string {
	file, function := fileName(text(cells["file"])), text(cells["function"])
	switch {
	case function == "":
		return "no Python frame"
	case file == "":
		return function
	}
	return file + " " + function
}

// sum adds the values of a second row of one key. What cannot be added, such as a median, is not
// known then.
func sum(columns []string, to *row, values []float64) {
	for len(to.values) < len(columns) {
		to.values = append(to.values, math.NaN())
	}
	for i, column := range columns {
		a, b := to.values[i], values[i]
		switch {
		case hasPrefix(column, "min_", "first_"):
			to.values[i] = least(a, b)
		case hasPrefix(column, "max_", "last_"):
			to.values[i] = most(a, b)
		case !isAdded(column):
			to.values[i] = math.NaN()
		case math.IsNaN(a):
			to.values[i] = b
		case !math.IsNaN(b):
			to.values[i] = a + b
		}
	}
}

// isAdded reports whether a column is a sum or a number of things.
func isAdded(column string) bool {
	switch column {
	case "mean", "median", "p95", "max", "below_share", "above_share", // of metrics
		"gbps", "busy_share", "pid", "tid", "gpu", "stream", "context", "address", "at_ns", "peak_at_ns", "line":
		return false
	}
	if strings.Contains(column, "median_") || strings.Contains(column, "mean_") {
		return false
	}
	return !hasPrefix(column, "inclusive_", "min_", "max_", "first_", "last_", "p95_", "p99_") &&
		!strings.HasSuffix(column, "_p95_ns") && !strings.HasSuffix(column, "_max_ns")
}

// isTime reports whether a column has times.
func isTime(column string) bool { return strings.HasSuffix(column, "_ns") }

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// least and most take the value that is known, of two the smaller or the larger one.
func least(a, b float64) float64 {
	if math.IsNaN(a) || b < a {
		return b
	}
	return a
}

func most(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
