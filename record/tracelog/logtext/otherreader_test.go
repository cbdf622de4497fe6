package logtext

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/google/go-cmp/cmp"
)

// testdata/reader.py is a reader that was written from FORMAT.md and docs/ndjson.md. It
// and the one of this package see the same in every log: all kinds of record, hostile
// values, a later version, every named sort of damage, a recording of a GPU.
func TestOtherReader(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"python3", "zstd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here", tool)
		}
	}
	logs := seeds(t)
	logs["hostile"] = hostileLog(t, kinds()...)
	logs["launches"] = manyLaunches(t, 12)
	logs["padded"] = longTexts(t)
	logs["all"] = assemble(t, golden(t))
	for _, path := range []string{committedLog, "../../../testdata/gpu/logs/streams.cudatrace"} {
		log := must.Get(os.ReadFile(path))(t)
		logs[filepath.Base(path)] = log
	}
	maps.DeleteFunc(logs, func(name string, log []byte) bool {
		_, err := tracelog.NewReader(bytes.NewReader(log), int64(len(log)), name)
		return err != nil // it is no log
	})

	dir := t.TempDir()
	args := []string{filepath.Join("..", "testdata", "reader.py")}
	var want []string
	for name, log := range logs {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, log, 0o600))
		args = append(args, path)
		for line := range strings.Lines(dumpJSON(t, log)) {
			if !strings.HasPrefix(line, `{"kind":"remark",`) {
				want = append(want, name+": "+line)
			}
		}
	}
	compareOther(t, args, want)
}

// longTexts is a log of texts that take so little room that the log has padding.
func longTexts(t *testing.T) []byte {
	t.Helper()
	w, out := newWriter(t)
	text := strings.Repeat("x", 1<<20)
	for i := range 20 {
		w.Add(&tracelog.Note{Time: uint64(i), Text: text[i:]})
	}
	must.Do(t, w.Close(tracelog.End{Complete: 1}))
	if out.Len() < 50_000 {
		t.Errorf("the log has no padding: %d bytes", out.Len())
	}
	return out.Bytes()
}

// compareOther compares what the other reader prints with lines, each behind its log's name.
func compareOther(t *testing.T, args, want []string) {
	t.Helper()
	cmd := exec.Command("python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	differ := 0
	got := strings.SplitAfter(string(out), "\n")
	for i, line := range want {
		name, line, _ := strings.Cut(line, ": ")
		other := got[min(i, len(got)-1)]
		if line == other {
			continue
		}
		ours, theirs := tokens(t, line), tokens(t, other)
		if !slices.Equal(ours, theirs) {
			t.Errorf("%s (-this package +the other reader):\n%s", name, cmp.Diff(ours, theirs))
			if differ++; differ > 3 {
				return
			}
		}
	}
	if n := len(got) - 1; n != len(want) { // behind the last line there is nothing
		t.Errorf("the other reader has %d records of %d", n, len(want))
	}
}

// tokens are the names and values of a line of JSON, in its order; escapes may differ.
func tokens(t *testing.T, line string) (all []json.Token) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, token)
	}
}
