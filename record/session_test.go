package record

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestLoopGoesOn has a terminal take no more lines while a process says hello, and another one ends: the loop answers, and tells who
// runs. All lines come when the terminal takes them. A hello that comes after the end is answered, too.
func TestLoopGoesOn(t *testing.T) {
	t.Parallel()
	said, stuck := make(chan string), make(chan struct{})
	var once sync.Once
	s, err := newSession(Options{Program: "program", Output: filepath.Join(t.TempDir(), "run"), Say: func(line string) {
		once.Do(func() { close(stuck) })
		said <- line
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.cancel()
	idle := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.loop(idle)
	}()
	pid := uint32(os.Getpid())
	_, other := s.helloOf(t, uint32(os.Getppid()))
	other.Status(tracelog.CUPTI{PID: uint32(os.Getppid()), Status: "there is none"})
	<-stuck
	config, one := s.helloOf(t, pid)
	if config.NoCUPTI {
		t.Error("the hello was not answered")
	}
	other.End(cupti.End{})
	if live := s.live(); len(live) != 1 || live[0] != pid {
		t.Errorf("live: %v", live)
	}
	one.End(cupti.End{})
	<-said
	close(idle)
	<-over
	s.later.Wait()
	if reasons := s.report.missing.list(); len(reasons) != 1 {
		t.Errorf("reasons %q", reasons)
	}
	config, late := s.Hello(cupti.Peer{PID: pid, Time: 1}) // one that comes when recording has ended
	late.Status(tracelog.CUPTI{PID: pid, Status: "on"})
	late.WatchExit(0, 0, 0)
	go func() { <-said }()
	late.Note(tracelog.NoteWarning, "something is missing")
	late.End(cupti.End{})
	if reasons := s.report.missing.list(); !config.NoCUPTI || len(reasons) != 2 {
		t.Errorf("to one that comes too late: %+v, reasons %q", config, reasons)
	}
	s.discard()
}

// TestHelloOfReplaced has a process run another program before probes can be made: both hellos are answered, and the end of the first
// program comes.
func TestHelloOfReplaced(t *testing.T) {
	t.Parallel()
	s, err := newSession(Options{Program: "program", Output: filepath.Join(t.TempDir(), "run"), Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.cancel()
	idle, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		s.loop(idle)
	}()
	pid := uint32(os.Getpid())
	met := func(n int) {
		for len(ask(s, func() []*recordedProcess { return s.all })) < n {
			runtime.Gosched()
		}
	}
	var programs sync.WaitGroup
	for n := range 2 {
		programs.Go(func() {
			_, f := s.Hello(cupti.Peer{PID: pid, Time: 1})
			f.End(cupti.End{})
		})
		met(n + 1)
	}
	s.tell(opened{})
	programs.Wait()
	if live := s.live(); len(live) != 0 {
		t.Errorf("live: %v", live)
	}
	close(idle)
	<-over
	s.later.Wait()
	s.discard()
}

// helloOf has a process say hello to a session that has nothing to probe it with.
func (s *session) helloOf(t *testing.T, pid uint32) (cupti.GoConfig, cupti.Listener) {
	t.Helper()
	s.tell(question(func() { s.opened = true }))
	return s.Hello(cupti.Peer{PID: pid, Time: 1})
}
