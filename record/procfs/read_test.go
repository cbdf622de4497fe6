package procfs

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A file is read up to the bound, and said to be longer.
func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o600))
	for bound, want := range map[int]string{7: "one\ntwo", 8: "one\ntwo\n", 9: "one\ntwo\n", 0: ""} {
		text, err := Read(path, bound)
		if string(text) != want || errors.Is(err, ErrCut) != (bound < 8) || !errors.Is(err, ErrCut) && err != nil {
			t.Errorf("up to %d: %q, %v", bound, text, err)
		}
		count, failed := 0, error(nil)
		for _, err := range lines(path, int64(bound)) {
			if failed = err; err == nil {
				count++
			}
		}
		if errors.Is(failed, ErrCut) != (bound <= 8) || bound == 9 && (count != 2 || failed != nil) {
			t.Errorf("up to %d: %d lines, %v", bound, count, failed)
		}
	}
	if _, err := Read(path+"x", 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A process whose environment and arguments have gigabytes costs no more than the bounds, and what is cut is said to be.
func TestBloatedProcess(t *testing.T) {
	if attacktest.Bloats() {
		return
	}
	t.Parallel()
	pid := attacktest.Bloated{User: attacktest.User, Bytes: 4 << 30, First: "FIRST=1"}.Start(t)
	environ, err := Environment(pid)
	if got := strings.Join(environ, "|"); got != "FIRST=1|" || !errors.Is(err, ErrCut) {
		t.Errorf("its environment has %d variables, %.100q, %v", len(environ), got, err)
	}
	if has, err := EnvironmentHas(pid, "FIRST=1"); !has || err != nil {
		t.Errorf("it has the first variable: %v, %v", has, err)
	}
	if has, err := EnvironmentHas(pid, "SECOND=1"); has || !errors.Is(err, ErrCut) {
		t.Errorf("it has another variable: %v, %v", has, err)
	}
	args := Describe(pid).Args
	if !strings.HasPrefix(args, "FIRST=1\x00") || !strings.HasSuffix(args, cutArguments) || len(args) != maxArguments+len(cutArguments) {
		t.Errorf("its arguments have %d bytes: %.100q", len(args), args)
	}
}

// An argument that is cut is left out.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"a\x00bc\x00": "a\x00bc",
		"a\x00http://user:secret" + strings.Repeat("x", maxArguments): "a\x00" + cutArguments,
		strings.Repeat("x", maxArguments+1):                           cutArguments,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(text), 0o600))
		if got := arguments(dir); got != want {
			t.Errorf("%.30q: %.100q", text, got)
		}
	}
}

// A process has a time of start and an owner.
func TestStarted(t *testing.T) {
	t.Parallel()
	at, ok := Started(os.Getpid())
	if now := Now(); !ok || at == 0 || at > now || now-at > 360_000 {
		t.Errorf("started at %d (%v), now it is %d", at, ok, now)
	}
	if owner, ok := Owner(os.Getpid()); !ok || int(owner) != os.Getuid() {
		t.Errorf("the owner is %d, %v", owner, ok)
	}
	if _, ok := Started(1 << 30); ok {
		t.Error("a process that is not there was started")
	}
}

// A process that has a lease on a file it maps does not have us wait for the file.
func TestLease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	must.Do(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	page := must.Get(unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE))(t)
	defer unix.Munmap(page)
	code, err := CodeFiles(os.Getpid())
	at := slices.IndexFunc(code, func(m Mapping) bool { return m.Path == path })
	if err != nil || at < 0 {
		t.Fatalf("%+v, %v", code, err)
	}
	signal.Ignore(unix.SIGIO) // by which the kernel asks for the file
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("this file system has no leases:", err)
	}
	for range 2 {
		got, err := code[at].Open(os.Getpid())
		if err == nil {
			got.Close()
		}
		if !errors.Is(err, unix.EAGAIN) || !strings.Contains(err.Error(), path+" cannot be read now: a process has a lease on it") {
			t.Errorf("the error is %v", err)
		}
	}
	must.Get(unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK))(t)
	got := must.Get(code[at].Open(os.Getpid()))(t)
	got.Close()
}
