// Package logtest makes logs for tests and benchmarks of conversions.
//
// Input: records in the text form, or a number of launches. Output: logs in memory, whole, in
// parts, or growing.
package logtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// An Opener opens a log. It may be called several times.
type Opener = func() (*tracelog.Reader, error)

// InMemory returns an opener of a log in memory.
func InMemory(data []byte) Opener {
	return func() (*tracelog.Reader, error) {
		return tracelog.NewReader(bytes.NewReader(data), int64(len(data)), "test")
	}
}

// Assemble makes a log from its text form.
func Assemble(t testing.TB, text string) Opener {
	t.Helper()
	data := must.Get(Assembled(text))(t)
	return InMemory(data)
}

// A Text is a log in text form.
type Text struct {
	Name, Text string
	path       string // without the suffix
}

// Golden is the path of the golden file with a suffix, beside the log.
func (t *Text) Golden(suffix string) string { return t.path + suffix }

// Texts are the logs in text form of a folder, NAME.log.txt, by name.
func Texts(t testing.TB, folder string) (all []Text) {
	t.Helper()
	const suffix = ".log.txt"
	paths, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs in %s: %v", folder, err)
	}
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		all = append(all, Text{
			strings.TrimSuffix(filepath.Base(path), suffix), string(text), strings.TrimSuffix(path, suffix),
		})
	}
	return all
}

// Assembled returns the bytes of a log from its text form.
func Assembled(text string) ([]byte, error) {
	var log bytes.Buffer
	w, err := tracelog.NewWriter(&log, tracelog.Options{})
	if err != nil {
		return nil, err
	}
	end, err := logtext.Assemble(strings.NewReader(text), w)
	if err != nil {
		return nil, err
	}
	err = w.Close(end)
	return log.Bytes(), err
}

// A Counter counts the bytes that are written to it.
type Counter struct{ Bytes int64 }

func (c *Counter) Write(p []byte) (int, error) {
	c.Bytes += int64(len(p))
	return len(p), nil
}

var _ io.Writer = (*Counter)(nil)
