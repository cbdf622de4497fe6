package main

import (
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/chrometest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// checkChrome compares the Chrome trace of a log with its Perfetto trace.
func checkChrome(t *testing.T, log string, perfetto *tptest.Trace, early uint64) {
	t.Helper()
	chrometest.Same(t, perfetto, chromeFiles(t, log), early)
}

// chromeFiles makes the Chrome trace of a log and returns its files.
func chromeFiles(t *testing.T, log string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run.pt.trace.json.gz")
	files := []string{out}
	_, err := convert.Files([]string{log}, out, convert.TraceOptions{Format: convert.Chrome, Several: func(folder string, n int) {
		var err error
		files, err = filepath.Glob(filepath.Join(folder, "*_*.pt.trace.json.gz"))
		if err != nil || len(files) != n {
			t.Errorf("%d files in %s, want %d", len(files), folder, n)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGPULogChrome compares the two traces of the logs from real GPUs.
func TestGPULogChrome(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"streams", "train"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(filepath.Dir(gpuLog), name+".cudatrace")
			path := filepath.Join(t.TempDir(), name+".pftrace")
			sum, err := convert.File(log, path)
			if err != nil {
				t.Fatal(err)
			}
			checkChrome(t, log, tptest.Open(t, path), sum.Early)
		})
	}
}
