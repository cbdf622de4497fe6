package top

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// A file has a writer as long as somebody has it open for writing.
func TestHasNoWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	writer := must.Get(os.Create(path))(t)
	reader := must.Get(os.Open(path))(t)
	defer reader.Close()
	if hasNoWriter(reader) {
		t.Error("a writer is not seen")
	}
	must.Do(t, writer.Close())
	if !hasNoWriter(reader) {
		t.Error("a writer is seen that is gone")
	}
}

// The beginning of a temporary log is freed, but for its first block; that of another log stays.
func TestFree(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	defer f.Close()
	data := bytes.Repeat([]byte("log "), 2<<20)
	must.Get(f.Write(data))(t)
	must.Do(t, f.Sync())
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8<<20, 4096); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this file system frees no part of a file")
	}
	blocks := func() int64 {
		var s unix.Stat_t
		must.Do(t, unix.Fstat(int(f.Fd()), &s))
		return s.Blocks * 512
	}
	before := blocks()
	kept := &watch{log: f}
	if kept.free(6 << 20); blocks() != before {
		t.Error("a log that is to stay loses its beginning")
	}
	w := &watch{log: f, discard: true}
	if w.free(1000); w.freed != 0 {
		t.Error("a small step is taken")
	}
	w.free(6<<20 + 77)
	if after := blocks(); w.freed != 6<<20 || before-after < 5<<20 {
		t.Errorf("%d bytes of %d are left, freed up to %d", after, before, w.freed)
	}
	got := make([]byte, 8<<20)
	must.Get(f.ReadAt(got, 0))(t)
	if !bytes.Equal(got[:4096], data[:4096]) || !bytes.Equal(got[6<<20:], data[6<<20:]) {
		t.Error("bytes are gone that are needed")
	}
}
