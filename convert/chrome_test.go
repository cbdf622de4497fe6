package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/chrometest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// chromeTo writes the Chrome trace of a log with one process, uncompressed.
func chromeTo(tb testing.TB, open logtest.Opener, w io.Writer) {
	tb.Helper()
	if _, err := toTrace([]Log{{"test", open}}, w, TraceOptions{Format: Chrome, Compress: output.None}); err != nil {
		tb.Fatal(err)
	}
}

// A chromeFile is one file of a Chrome trace.
type chromeFile struct {
	process *timeline.Process
	bytes.Buffer
}

// chromeFilesOf makes the files of the Chrome trace of a log, uncompressed.
func chromeFilesOf(tb testing.TB, open logtest.Opener, o TraceOptions) (files []*chromeFile, sum Summary) {
	tb.Helper()
	c := newConversion([]Log{{"test", open}}, o.Options)
	if err := c.read(); err != nil {
		tb.Fatal(err)
	}
	o.Compress = output.None
	all, err := c.chrome(o, func(p *timeline.Process) (io.Writer, error) {
		files = append(files, &chromeFile{process: p})
		return files[len(files)-1], nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files, all[0]
}

// A chromeEvent is an event of a Chrome trace.
type chromeEvent struct {
	Ph, Cat, Name string
	PID, TID      uint32
	TS, Dur       json.Number
	ID            uint64
	Args          map[string]any
}

// A chromeTrace is a Chrome trace as a reader has it.
type chromeTrace struct {
	SchemaVersion       int
	Host                string `json:"host_name"`
	DisplayTimeUnit     string
	BaseTimeNanoseconds uint64
	DeviceProperties    []map[string]any
	TraceEvents         []chromeEvent
}

// parse reads a file. It fails the test when the file is not valid JSON in UTF-8.
func (f *chromeFile) parse(tb testing.TB) *chromeTrace {
	tb.Helper()
	if !utf8.Valid(f.Bytes()) {
		tb.Fatal("the JSON is not UTF-8")
	}
	var tr chromeTrace
	if err := json.Unmarshal(f.Bytes(), &tr); err != nil {
		tb.Fatalf("%v\n%s", err, f)
	}
	return &tr
}

// TestChromeProcessor reads the Chrome trace of each log in testdata with the trace processor. It
// has the slices and the launch arrows of the Perfetto trace, with the same total times.
func TestChromeProcessor(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log.txt")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".log.txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compareFormats(t, logtest.Assemble(t, string(text)))
		})
	}
}

// compareFormats compares the two traces of a log.
func compareFormats(t *testing.T, open logtest.Opener) {
	t.Helper()
	files, sum := chromeFilesOf(t, open, TraceOptions{})
	var paths []string
	for i, f := range files {
		f.parse(t)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(path, f.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	chrometest.Same(t, openTrace(t, open), paths, sum.Early)
}

// TestChromeGolden shows the Chrome traces of some logs, and of the beginning of a recording on a
// real GPU.
func TestChromeGolden(t *testing.T) {
	for _, name := range []string{"callers", "exec", "graph", "memory", "nvtx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("testdata/" + name + ".log.txt")
			if err != nil {
				t.Fatal(err)
			}
			holdChrome(t, name, logtest.Assemble(t, string(text)), TraceOptions{StepRange: "step*"})
		})
	}
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		log := Path("../testdata/gpu/logs/streams.cudatrace")
		holdChrome(t, "streams", log.Open, TraceOptions{Options: Options{Filter: Filter{From: streamsFrom, To: streamsTo}}})
	})
}

// The time of the first round of streams.cudatrace.
const (
	streamsFrom = 386 * time.Millisecond
	streamsTo   = 386_400 * time.Microsecond
)

// holdChrome compares the Chrome trace of a log with its golden file.
func holdChrome(t *testing.T, name string, open logtest.Opener, o TraceOptions) {
	t.Helper()
	files, _ := chromeFilesOf(t, open, o)
	var got bytes.Buffer
	for _, f := range files {
		f.parse(t)
		got.Write(f.Bytes())
	}
	golden := "testdata/chrome/" + name + ".json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", golden, diff)
	}
}
