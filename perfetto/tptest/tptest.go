// Package tptest queries a trace with Perfetto's own trace processor, so that a test checks
// what people see in the UI. A trace and SQL queries go in; rows come out.
//
// The trace processor is a WebAssembly build that runs under Node.js; the script
// is testdata/traceprocessor/query.mjs, and README.md beside it lists queries
// that are useful for a trace of this project.
package tptest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A Row is a row of a query's result by column name. A value is an int64,
// a float64, a string, a []byte or nil (SQL's NULL).
type Row map[string]any

// A Trace is a trace loaded into a trace processor, which it has for itself until
// the end of the test. It serves one goroutine at a time.
type Trace struct {
	*processor
	t    testing.TB
	path string
}

// A processor is a process of the script, which has one trace after another.
type processor struct {
	cmd     *exec.Cmd
	queries io.WriteCloser
	out     io.Reader
	answers *bufio.Reader // of out
	stderr  *bytes.Buffer
	ended   bool
}

// idle are the processors of this process that have no trace now: the start of one takes longer than a small trace.
var idle struct {
	sync.Mutex
	list []*processor
}

// mostReused is the size of the largest trace, in bytes, whose processor is used again: one for larger traces
// optimises its code first, and keeps the memory.
const mostReused = 4 << 20

// Open loads the trace at path, gzip-compressed or not. The test fails when that
// is not possible, also when Node.js or the trace processor is missing.
func Open(t testing.TB, path string) *Trace {
	t.Helper()
	script := findScript(t)
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	small := err == nil && info.Size() <= mostReused
	tr := &Trace{t: t, path: path}
	if tr.processor = takeIdle(small); tr.processor != nil {
		tr.send(map[string]string{"load": path})
	} else if tr.processor, err = startProcessor(exec.Command("node", script, path)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		switch {
		case small && !tr.ended:
			idle.Lock()
			idle.list = append(idle.list, tr.processor)
			idle.Unlock()
		default:
			if err := tr.wait(); err != nil {
				tr.t.Errorf("trace processor on %s: %s", tr.path, tr.failure(err))
			}
		}
	})
	var ready struct {
		Ready bool
		Error string
	}
	if err := tr.read(&ready); err != nil || !ready.Ready {
		t.Fatalf("%s does not load: %s%s", path, ready.Error, tr.failure(err))
	}
	return tr
}

// takeIdle returns a processor that has no trace now, nil for none.
func takeIdle(small bool) (p *processor) {
	idle.Lock()
	defer idle.Unlock()
	if n := len(idle.list); n > 0 && small {
		p, idle.list = idle.list[n-1], idle.list[:n-1]
	}
	return p
}

// findScript finds the script from the working folder of the test upwards.
func findScript(t testing.TB) string {
	t.Helper()
	folder := must.Get(os.Getwd())(t)
	for ; folder != "/"; folder = filepath.Dir(folder) {
		script := filepath.Join(folder, "testdata", "traceprocessor", "query.mjs")
		if _, err := os.Stat(script); err == nil {
			return script
		}
	}
	t.Fatal("testdata/traceprocessor/query.mjs is in no folder above the test's")
	return ""
}

// startProcessor runs cmd with pipes to its standard input and output.
func startProcessor(cmd *exec.Cmd) (*processor, error) {
	p := &processor{cmd: cmd, stderr: new(bytes.Buffer)}
	cmd.Stderr = p.stderr
	var err error
	if p.queries, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out, p.answers = out, bufio.NewReaderSize(out, 1<<16)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: `make tools` needs Node.js 20 or newer", err)
	}
	return p, nil
}

// wait ends the script and returns its failure.
func (p *processor) wait() error {
	if p.ended {
		return nil
	}
	p.ended = true
	p.queries.Close() // closing the script's input ends the script
	io.Copy(io.Discard, p.out)
	return p.cmd.Wait()
}

// send writes v as a line to the script.
func (p *processor) send(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = p.queries.Write(append(line, '\n'))
	}
	return err
}

// read decodes the next line of the script into v.
func (p *processor) read(v any) error {
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	return d.Decode(v)
}

// failure waits for the script's end and returns the script's error output, or else err.
func (p *processor) failure(err error) string {
	if werr := p.wait(); werr != nil && err == nil {
		err = werr
	}
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return said
	}
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}

// Query returns the rows of a query. The test fails when it is not valid.
func (tr *Trace) Query(sql string) []Row {
	tr.t.Helper()
	columns, rows := tr.query(sql)
	out := make([]Row, len(rows))
	for i, cells := range rows {
		out[i] = make(Row, len(columns))
		for j, name := range columns {
			out[i][name] = cells[j]
		}
	}
	return out
}

// Values returns the rows of a query as cells in the order of its columns.
func (tr *Trace) Values(sql string) [][]any {
	tr.t.Helper()
	_, rows := tr.query(sql)
	return rows
}

// Table returns the columns and the rows of a query.
func (tr *Trace) Table(sql string) (columns []string, rows [][]any) {
	tr.t.Helper()
	return tr.query(sql)
}

// Int returns the single integer that a query gives, for instance a count.
func (tr *Trace) Int(sql string) int64 {
	tr.t.Helper()
	rows := tr.Values(sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		tr.t.Fatalf("%s: %d rows, want a single value", sql, len(rows))
	}
	n, ok := rows[0][0].(int64)
	if !ok {
		tr.t.Fatalf("%s: the value is %v, want an integer", sql, rows[0][0])
	}
	return n
}

func (tr *Trace) query(sql string) (columns []string, rows [][]any) {
	tr.t.Helper()
	var answer struct {
		Columns []string
		Rows    [][]any
		Error   string
	}
	err := tr.send(sql)
	if err == nil {
		err = tr.read(&answer)
	}
	if err != nil {
		tr.t.Fatalf("trace processor on %s: %s", tr.path, tr.failure(err))
	}
	if answer.Error != "" {
		tr.t.Fatalf("%s: %s", tr.path, answer.Error)
	}
	for _, row := range answer.Rows {
		for i, cell := range row {
			if row[i], err = value(cell); err != nil {
				tr.t.Fatalf("%s: column %s: %v", sql, answer.Columns[i], err)
			}
		}
	}
	return answer.Columns, answer.Rows
}

// value turns a cell of the script's JSON into the type that Row promises.
func value(cell any) (any, error) {
	switch c := cell.(type) {
	case json.Number:
		if strings.ContainsAny(c.String(), ".eE") {
			return c.Float64()
		}
		return c.Int64()
	case map[string]any:
		text, _ := c["base64"].(string)
		return base64.StdEncoding.DecodeString(text)
	}
	return cell, nil
}

// NoErrors fails the test for every error and every loss of data that the trace
// processor counted. Some losses are not counted, so check numbers of rows too.
func NoErrors(t testing.TB, tr *Trace) {
	t.Helper()
	const sql = `select name, value from stats where value > 0 and severity in ('error', 'data_loss') order by name`
	for _, row := range tr.Query(sql) {
		t.Errorf("%s: the trace processor counts %v of %s", tr.path, row["value"], row["name"])
	}
}
