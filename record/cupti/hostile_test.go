package cupti

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOddEnvironment runs a program whose environment names no library that could be
// loaded, or one whose recorder has ended: nothing changes for it.
func TestOddEnvironment(t *testing.T) {
	t.Parallel()
	ended := newStage(t, Options{}, GoConfig{})
	orphaned := filepath.Join(t.TempDir(), libraryName)
	if err := os.WriteFile(orphaned, library, 0o500); err != nil {
		t.Fatal(err)
	}
	gone := ended.server.Environ(nil)
	if err := ended.server.Close(); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(t.TempDir(), "loop.so")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"gone":        gone,
		"no-socket":   {InjectionVar + "=" + orphaned, NVTXVar + "=" + orphaned},
		"empty":       {InjectionVar + "=", NVTXVar + "="},
		"folder":      {InjectionVar + "=/tmp", NVTXVar + "=/tmp"},
		"text":        {InjectionVar + "=/etc/passwd"},
		"loop":        {InjectionVar + "=" + loop},
		"long":        {InjectionVar + "=/" + strings.Repeat("a", 100000)},
		"not-utf8":    {InjectionVar + "=\xff\xfe/\x01"},
		"no-name":     {"=x", InjectionVar, "=" + InjectionVar + "=y"},
		"set-twice":   {InjectionVar + "=" + orphaned, InjectionVar + "=/nowhere"},
		"cupti-of-it": {NVTXVar + "=libcupti.so.13"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := play{simProgram(t, "many"), nil, nil}.command(t, os.Environ())
			plainOut, plainErr, plainCode := runCommand(t, cmd)
			cmd = play{simProgram(t, "many"), nil, nil}.command(t, append(os.Environ(), env...))
			stdout, stderr, code := runCommand(t, cmd)
			if stdout != plainOut || stderr != plainErr || code != plainCode {
				t.Errorf("it printed %q and %q and ended with %d", stdout, stderr, code)
			}
		})
	}
}

// TestEnvironKeepsOddEntries passes on what is no assignment, byte for byte.
func TestEnvironKeepsOddEntries(t *testing.T) {
	t.Parallel()
	odd := []string{"", "=", "=x", "A", "A=\xff", "A=1", "A=2", "B=a=b", strings.Repeat("x", 1<<20) + "="}
	got := (&Server{dir: "/tmp/x"}).Environ(odd)
	if !slices.Equal(got[:len(odd)], odd) || len(got) != len(odd)+2 {
		t.Errorf("%d entries became %d", len(odd), len(got))
	}
}

// TestPeerClaimsAnotherPID has a process say that it is another: the kernel knows.
func TestPeerClaimsAnotherPID(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	conn := dial(t, s.server)
	batch := appendFrame(nil, msgBatch, record(recContext, 1, 2, 7))
	if _, err := conn.Write(stream(batch)); err != nil { // whose hello says 42
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Logf("the connection ended with %v", err)
	}
	s.server.Wait(patience)
	me := uint32(os.Getpid())
	if len(s.peers) != 1 || s.peers[0].PID != me || s.peers[0].LocalPID != 42 || s.ends[0].PID != me || s.ends[0].Complete != 0 {
		t.Errorf("peers %+v, ends %+v", s.peers, s.ends)
	}
	if got := fmt.Sprintf("%+v", s.last["context"]); !strings.Contains(got, fmt.Sprintf("PID:%d ", me)) {
		t.Errorf("the record is %s", got)
	}
}

// TestUsers refuses who is neither root, nor the recorder, nor its programs' owner.
func TestUsers(t *testing.T) {
	t.Parallel()
	owner := Owner{1000, 1000}
	for uid, ok := range map[uint32]bool{0: true, 1000: true, uint32(os.Geteuid()): true, 4711: os.Geteuid() == 4711, 0xffffffff: false} {
		if err := owner.admits(uid); (err == nil) != ok {
			t.Errorf("user %d: %v", uid, err)
		}
	}
}

// TestFloodOfStrangers opens connections that say nothing, or nothing that makes
// sense: a program that comes meanwhile is recorded, and none of them is waited for.
func TestFloodOfStrangers(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	for i := range 200 {
		conn := dial(t, s.server)
		if i%2 == 0 {
			if _, err := conn.Write([]byte(strings.Repeat("\xff", i))); err != nil {
				t.Logf("connection %d was closed: %v", i, err)
			}
		}
		if i%3 == 0 {
			conn.Close()
		}
	}
	cmd := play{"program", []string{"return", "2", "1000"}, nil}.command(t, s.server.Environ(os.Environ()))
	stdout, stderr, code := runCommand(t, cmd)
	expect(t, stdout, stderr, code, "launched 2000 dropped 0\n")
	for s.ended() == 0 {
		s.server.Wait(1)
	}
	if s.counts["kernel"] != 2000 || s.ends[0].Complete != 1 {
		t.Errorf("%v arrived, the end is %+v", s.counts, s.ends)
	}
}
