package top

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file has a writer as long as somebody has it open for writing.
func TestHasNoWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if hasNoWriter(reader) || noneWrites(reader) {
		t.Error("a writer is not seen")
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && (!hasNoWriter(reader) || !noneWrites(reader)) {
		t.Error("a writer is seen that is gone")
	}
}

// The beginning of a temporary log is freed, but for its first block; that of another log stays.
func TestFree(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := bytes.Repeat([]byte("log "), 2<<20)
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8<<20, 4096); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this file system frees no part of a file")
	}
	blocks := func() int64 {
		var s unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &s); err != nil {
			t.Fatal(err)
		}
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
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[:4096], data[:4096]) || !bytes.Equal(got[6<<20:], data[6<<20:]) {
		t.Error("bytes are gone that are needed")
	}
}
