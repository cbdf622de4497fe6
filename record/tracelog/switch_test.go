package tracelog

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestSwitch goes on with a second log: each has its own records, texts and end.
func TestSwitch(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	w := must.Get(Create(paths[0], Options{}))(t)
	w.Add(&Kernel{GPU: GPU{PID: 1, Start: 5}, Name: "first"})
	f := must.Get(os.Create(paths[1]))(t)
	must.Do(t, w.Switch(f, End{Time: 6, Complete: 1}))
	w.Add(&Kernel{GPU: GPU{PID: 1, Start: 7}, Name: "second"})
	must.Do(t, w.Close(End{Time: 8, Complete: 1}))
	if err := w.Switch(f, End{}); err == nil {
		t.Error("a closed writer goes on")
	}
	for i, want := range []Kernel{{GPU: GPU{PID: 1, Start: 5}, Name: "first"}, {GPU: GPU{PID: 1, Start: 7}, Name: "second"}} {
		r := must.Get(Open(paths[i]))(t)
		got := readAll(t, r)
		end, ended := r.End()
		if len(got[KindKernel]) != 1 || *got[KindKernel][0].(*Kernel) != want || !ended || end.Complete != 1 || end.Time != uint64(6+2*i) || r.Err() != nil {
			t.Errorf("log %d: %+v, end %+v, %v", i, got, end, r.Err())
		}
		if index, err := r.Index(); err != nil || index.Totals[KindKernel] != 1 {
			t.Errorf("log %d: %+v, %v", i, index, err)
		}
		r.Close()
	}
}

// TestSwitchLoses leaves a log that cannot be written: the next one counts what was lost.
func TestSwitchLoses(t *testing.T) {
	p := &patient{}
	w := must.Get(NewWriter(p, Options{}))(t)
	p.ill = syscall.ENOSPC
	give(w, 10)
	path := filepath.Join(t.TempDir(), "next")
	f := must.Get(os.Create(path))(t)
	must.Do(t, w.Switch(f, End{Time: 6, Complete: 1}))
	w.Add(&Call{PID: 1, Enter: 5})
	must.Do(t, w.Close(End{Time: 8, Complete: 1}))
	r := must.Get(Open(path))(t)
	defer r.Close()
	got := readAll(t, r)
	var lost uint64
	for _, x := range got[KindLost] {
		if l := x.(*Lost); l.Cause == LostLogWrite {
			lost += l.Count
		}
	}
	if end, _ := r.End(); lost < 20 || len(got[KindCall]) != 1 || end.Complete != 0 {
		t.Errorf("%d records are said to be lost, end %+v", lost, end)
	}
}
