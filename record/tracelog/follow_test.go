package tracelog

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
)

// A growingLog has as many bytes as have been written to it.
type growingLog struct{ bytes.Buffer }

func (g *growingLog) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(g.Bytes()).ReadAt(b, off)
}

func (g *growingLog) Size() int64 { return int64(g.Len()) }

// follow opens a log that is still being written.
func (g *growingLog) follow(t *testing.T) *Reader {
	t.Helper()
	r := must.Get(NewReader(g, g.Size(), "growing.cudatrace"))(t)
	must.Do(t, r.Follow())
	return r
}

// A reader that follows a log has after each step of its writing all records that were
// flushed, reads no byte twice, and sees the log's end.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, Options{RowsPerBlock: 100})
	if err != nil {
		t.Fatal(err)
	}
	var readers []*Reader
	for _, workers := range []int{0, 2} {
		r := must.Get(Open(path))(t)
		defer r.Close()
		must.Do(t, r.Follow())
		r.Parallel(workers)
		readers = append(readers, r)
	}
	work := newWorkload()
	found := make([]int, len(readers))
	const steps, each = 20, 70
	for step := range steps {
		for range each {
			work.write(w)
		}
		if step < steps-1 {
			err = w.Flush()
		} else {
			err = w.Close(End{Time: 7, Complete: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range readers {
			found[i] += survivors(r)
			want := 3 * each * (step + 1)
			if step == steps-1 {
				want++ // the End record
			}
			if found[i] != want || r.Err() != nil {
				t.Fatalf("reader %d, step %d: %d records, want %d; error %v", i, step, found[i], want, r.Err())
			}
			if _, ended := r.End(); ended != (step == steps-1) {
				t.Errorf("reader %d, step %d: the end has been read: %v", i, step, ended)
			}
		}
	}
	for i, r := range readers {
		if r.Next() || r.BytesRead() > r.Size()+steps*100 {
			t.Errorf("reader %d: %d bytes were read of a log of %d", i, r.BytesRead(), r.Size())
		}
	}
}

// Wherever the log ends when it is looked at, nothing is said to be damaged, and all records
// come in the end: those that a filter wants, of the fields that are asked for.
func TestFollowAnywhere(t *testing.T) {
	t.Parallel()
	log := eventLog(t, true)
	first, _ := blockfile.ParseHeader(log[blockfile.FileHeaderSize:]) // of the schema
	for _, name := range []string{"all", "kinds, time", "processes", "stream"} {
		f := filters[name]
		want := wanted(t, openBytes(t, log), f, false)
		for _, step := range []int{501, 4999, len(log) / 3, 2 * int(first.Size())} {
			for _, workers := range []int{0, 3} {
				var g growingLog
				g.Write(log[:100+step/2])
				r := g.follow(t)
				r.Parallel(workers)
				must.Do(t, r.Select(f))
				got := wanted(t, r, f, false)
				for g.Len() < len(log) {
					g.Write(log[g.Len():min(g.Len()+step, len(log))])
					got = append(got, wanted(t, r, f, false)...)
					if r.Damage().Count > 0 {
						t.Fatalf("%s, steps of %d, byte %d: %v", name, step, g.Len(), r.Damage())
					}
				}
				if _, ended := r.End(); !slices.Equal(got, want) || !ended {
					t.Errorf("%s, steps of %d, %d workers: %d records, want %d; ended %v", name, step, workers, len(got), len(want), ended)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Kept blocks and texts stay what they are while the log grows.
func TestFollowKeeps(t *testing.T) {
	t.Parallel()
	var g growingLog
	w := must.Get(NewWriter(&g, Options{RowsPerBlock: 20}))(t)
	r := g.follow(t)
	work := newWorkload()
	var kept []*Block
	for range 10 {
		for range 50 {
			work.write(w)
		}
		must.Do(t, w.Flush())
		for r.Next() {
			kept = append(kept, r.Keep())
		}
	}
	kernels := 0
	for _, b := range kept {
		for i := 0; b.Kind == KindKernel && i < b.N; i++ {
			var k Kernel
			if k.Read(b, i); !slices.Contains(work.names, k.Name) {
				t.Fatalf("a kernel's name is %q", k.Name)
			}
			kernels++
		}
		b.Release()
	}
	if kernels != 500 {
		t.Errorf("%d kernels", kernels)
	}
}

func TestFollowTooLate(t *testing.T) {
	r := openBytes(t, smallLog(t))
	r.Next()
	if err := r.Follow(); err == nil || err.Error() != "test.cudatrace cannot be followed after reading has begun" {
		t.Errorf("error %v", err)
	}
}

// faultsOf has the places and reasons of a log's damage. The number of bytes behind the end of
// a log depends on the time at which they are seen.
func faultsOf(d *Damage) (faults []string) {
	for _, err := range d.Errors {
		switch e := err.(type) {
		case *CorruptError:
			faults = append(faults, fmt.Sprint(e.Offset, " ", e.Reason))
		case *TruncatedError:
			faults = append(faults, fmt.Sprint(e.Offset, " ", e.Reason))
		}
	}
	return faults
}

// Whatever is wrong with a log, a reader that followed it to its end has the same records and
// the same damage as one that reads it afterwards.
func TestFollowDamaged(t *testing.T) {
	t.Parallel()
	for name, log := range readerSeeds(t) {
		whole, err := NewReader(bytes.NewReader(log), int64(len(log)), "test.cudatrace")
		if err != nil {
			continue
		}
		want := allLines(whole)
		for _, workers := range []int{0, 2} {
			var g growingLog
			g.Write(log[:min(len(log), 40)])
			r := g.follow(t)
			r.Parallel(workers)
			var got []string
			for more := true; more; {
				got = append(got, allLines(r)...)
				if more = g.Len() < len(log); more {
					g.Write(log[g.Len():min(g.Len()+331, len(log))])
				}
			}
			r.StopFollowing()
			got = append(got, allLines(r)...)
			if !slices.Equal(got, want) || !slices.Equal(faultsOf(r.Damage()), faultsOf(whole.Damage())) {
				t.Errorf("%s, %d workers: %d records, want %d; damage\n%v, want\n%v", name, workers, len(got), len(want), r.Damage(), whole.Damage())
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
