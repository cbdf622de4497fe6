package tracelog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
)

// A patient takes all bytes, but for the times when it is ill: then it takes a few and fails.
type patient struct {
	buf    bytes.Buffer
	ill    error
	takes  int // bytes of each write while ill
	writes int // while ill
}

func (p *patient) Write(b []byte) (int, error) {
	if p.ill == nil {
		return p.buf.Write(b)
	}
	p.writes++
	n := min(p.takes, len(b))
	p.buf.Write(b[:n])
	return n, p.ill
}

// give adds n calls and kernels with incompressible times.
func give(w *Writer, n int) {
	for i := range uint32(n) {
		w.Add(&Call{PID: 1, TID: i % 3, Func: i % 5, Enter: 1 + rand.Uint64()>>2, Dur: rand.Uint64() >> 40})
		w.Add(&Kernel{GPU: GPU{PID: 1, Start: 1 + rand.Uint64()>>2}, Name: string(rune('a' + i%26))})
	}
}

// counts are the records of a log by kind; damage fails.
func counts(t *testing.T, log []byte) (map[Kind]uint64, *Reader) {
	t.Helper()
	r := openBytes(t, log)
	n := make(map[Kind]uint64)
	for r.Next() {
		n[r.Block().Kind] += uint64(r.Block().N)
	}
	if err := r.Err(); err != nil {
		t.Errorf("the log is damaged: %v", err)
	}
	return n, r
}

// Once the file can be written again the log goes on without a gap, and says what was
// lost; nothing was where the backlog had room.
func TestWriterRecovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ill   error
		takes int
		rows  int // given while ill
		lost  bool
	}{
		"full disk":          {syscall.ENOSPC, 0, 3000, false},
		"full disk, torn":    {syscall.ENOSPC, 777, 3000, false},
		"broken disk, long":  {syscall.EIO, 0, 900_000, true},
		"full quota, long":   {syscall.EDQUOT, 1, 900_000, true},
		"says nothing, torn": {errors.New("odd"), 13, 5000, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := &patient{takes: c.takes}
			w := must.Get(NewWriter(disk, Options{}))(t)
			give(w, 1000)
			must.Do(t, w.Flush())
			disk.ill = c.ill
			w.Add(&Function{ID: 77, Name: "late"})
			give(w, c.rows)
			if err := w.Flush(); err == nil || w.Err() == nil || !strings.Contains(err.Error(), c.ill.Error()) {
				t.Errorf("Flush says %v, Err %v", err, w.Err())
			}
			if n := w.blocks.out.Waiting() + w.blocks.holds; n > maxHeld+1<<20 || disk.writes > 20+n/blockfile.FlushSize {
				t.Errorf("%d bytes wait, and writing was tried %d times", n, disk.writes)
			}
			disk.ill = nil
			give(w, 1000)
			if err := w.Flush(); err != nil || w.Err() != nil {
				t.Errorf("with room again: %v", err)
			}
			must.Do(t, w.Close(End{Time: 5, Complete: 1}))
			got, r := counts(t, disk.buf.Bytes())
			given := uint64(2000 + c.rows)
			dropped := w.Dropped()
			if got[KindCall]+dropped[KindCall] != given || got[KindKernel]+dropped[KindKernel] != given || got[KindFunction] != 1 {
				t.Errorf("%d of each were given, %v are in the log, %v dropped", given, got, dropped)
			}
			end, _ := r.End()
			if lost := len(dropped) > 0; lost != c.lost || lost == (end.Complete == 1) {
				t.Errorf("dropped %v, end %+v", dropped, end)
			}
			checkLostWrites(t, disk.buf.Bytes(), dropped)
		})
	}
}

// checkLostWrites holds the log's own account against the writer's.
func checkLostWrites(t *testing.T, log []byte, dropped map[Kind]uint64) {
	t.Helper()
	var want, said uint64
	for _, n := range dropped {
		want += n
	}
	for _, record := range readAll(t, openBytes(t, log))[KindLost] {
		if l := record.(*Lost); l.Cause == LostLogWrite {
			said += l.Count
			if l.From == 0 || l.To < l.From {
				t.Errorf("loss from %d to %d", l.From, l.To)
			}
		}
	}
	if said != want {
		t.Errorf("the log says that %d records were lost, the writer %d", said, want)
	}
}

// A reader that has gone away is an error, no signal and no end of the program.
func TestBrokenPipe(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	go func() {
		r.Read(make([]byte, 100))
		r.Close()
	}()
	w, err := NewWriter(out, Options{})
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	for range 100 {
		give(w, 1000)
		w.Flush()
	}
	if err := w.Close(End{Complete: 1}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error %v", err)
	}
	if d := w.Dropped(); d[KindCall] == 0 || d[KindCall] > 100_000 {
		t.Errorf("dropped %v", d)
	}
}

// A log on a disk that is full to the end of the recording ends in order, and says how many records it
// lacks.
func TestFullToTheEnd(t *testing.T) {
	for _, size := range []string{"size=64k", "size=300k", "size=1m", "size=6m", "size=20m"} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
			t.Skipf("mounting needs root: %v", err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		path := filepath.Join(dir, "a.cudatrace")
		w := must.Get(Create(path, Options{}))(t)
		given := uint64(0)
		for more := 0; more < 30; given += 2 * 10_000 {
			give(w, 10_000)
			if w.Flush() != nil {
				more++
			}
		}
		if err := w.Close(End{Complete: 1}); err != nil {
			t.Errorf("%s: %v", size, err)
		}
		log := must.Get(os.ReadFile(path))(t)
		got, r := counts(t, log)
		var lost Lost
		for again := openBytes(t, log); again.Next(); {
			if again.Block().Kind == KindLost {
				lost.Read(again.Block(), 0)
			}
		}
		if end, ended := r.End(); !ended || end.Complete != 0 || lost.Cause != LostLogWrite || lost.Count == 0 ||
			got[KindCall]+got[KindKernel]+lost.Count != given {
			t.Errorf("%s: %v and %d lost of %d, end %+v", size, got, lost.Count, given, end)
		}
	}
}

// After Flush a copy of the file has every record, whatever becomes of the writer.
func TestFlushedIsOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.cudatrace")
	w := must.Get(Create(path, Options{}))(t)
	defer w.Close(End{})
	want := 0
	for round := range 20 {
		for i := range 1 + round*round*37 {
			w.Add(&Call{PID: 1, TID: uint32(i % 7), Func: uint32(i % 3), Enter: uint64(i)})
			w.Add(&Kernel{GPU: GPU{PID: 1, Stream: uint32(i % 5), Start: 1}, Name: string(rune('a' + i%26))})
			want += 2
		}
		must.Do(t, w.Flush())
		log := must.Get(os.ReadFile(path))(t)
		r := openBytes(t, log)
		if got := survivors(r); got != want {
			t.Fatalf("round %d: %d records of %d are in the file", round, got, want)
		}
		if d := r.Damage(); d.Count != 1 || !strings.Contains(d.String(), "without an end record") {
			t.Errorf("round %d: %v", round, d)
		}
	}
}
