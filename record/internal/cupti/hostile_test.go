package cupti

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestOddEnvironment runs a program whose environment names no library that could be
// loaded, or one whose recorder has ended: nothing changes for it.
func TestOddEnvironment(t *testing.T) {
	t.Parallel()
	ended := newStage(t, Options{}, GoConfig{})
	orphaned := filepath.Join(t.TempDir(), privatefolder.LibraryName)
	must.Do(t, os.WriteFile(orphaned, library, 0o500))
	gone := ended.server.Environ(nil)
	must.Do(t, ended.server.Close())
	loop := filepath.Join(t.TempDir(), "loop.so")
	must.Do(t, os.Symlink(loop, loop))
	plainOut, plainErr, plainCode := runCommand(t, play{simProgram(t, "many"), nil, nil}.command(t, os.Environ()))
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
			cmd := play{simProgram(t, "many"), nil, nil}.command(t, append(os.Environ(), env...))
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

// TestPeerIsWhoTheKernelSays has a process send records: they get the PID that the kernel knows.
func TestPeerIsWhoTheKernelSays(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	conn := dial(t, s.server)
	batch := appendFrame(nil, msgBatch, record(tracelog.KindContext, 1, 2, 7))
	must.Get(conn.Write(stream(batch)))(t)
	must.Do(t, conn.CloseWrite())
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Logf("the connection ended with %v", err)
	}
	s.server.Wait(patience)
	me := uint32(os.Getpid())
	if len(s.peers) != 1 || s.peers[0].PID != me || s.ends[0].PID != me || s.ends[0].Complete != 0 {
		t.Errorf("peers %+v, ends %+v", s.peers, s.ends)
	}
	if got := fmt.Sprintf("%+v", s.last["context"]); !strings.Contains(got, fmt.Sprintf("PID:%d ", me)) {
		t.Errorf("the record is %s", got)
	}
}

// TestUsers refuses who is neither root, nor the recorder, nor its programs' owner.
func TestUsers(t *testing.T) {
	t.Parallel()
	owner := Owner{UID: 1000, GID: 1000}
	for uid, ok := range map[uint32]bool{0: true, 1000: true, uint32(os.Geteuid()): true, 4711: os.Geteuid() == 4711, 0xffffffff: false} {
		if err := admits(owner, uid); (err == nil) != ok {
			t.Errorf("user %d: %v", uid, err)
		}
	}
}

// TestFloodOfProcesses opens connections that say nothing, or nothing that makes
// sense: a program that comes meanwhile is recorded, and none of them is waited for.
func TestFloodOfProcesses(t *testing.T) {
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

// names are BATCHes with so many names of 16 KiB each, which begin with a text.
func names(begin string, count int) []byte {
	var all []byte
	for i := range count {
		name := fmt.Sprintf("%s %d ", begin, i)
		name += strings.Repeat("x", 16<<10-len(name))
		all = append(all, appendFrame(nil, msgBatch, stringRecord(uint32(i+1), name))...)
	}
	return all
}

// TestNamesOfAllProcesses has twenty processes send names, more than all of them together may: each
// name is kept or counted as lost, the loss is said, and the memory is free when they have ended.
func TestNamesOfAllProcesses(t *testing.T) {
	t.Parallel()
	const processes, each, most = 20, 100, 8 << 20
	s := newStage(t, Options{}, GoConfig{})
	s.server.memory.most = most
	var conns []*net.UnixConn
	var all sync.WaitGroup
	for i := range processes {
		conn := dial(t, s.server)
		conns = append(conns, conn)
		all.Go(func() {
			kernel := appendFrame(nil, msgBatch, record(tracelog.KindKernel, 1, 5, 0, 1000, 0, 1500, 0, 2, 3, 7, 4, each, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 32))
			if _, err := conn.Write(stream(concat(names(fmt.Sprint("process ", i), each), kernel))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for s.count("kernel") < processes { // the names came before
		runtime.Gosched()
	}
	kept := len(s.server.memory.names)
	if s.server.memory.used() > most || uint64(kept) != processes*each-s.lost[tracelog.LostStrings] || kept < most/(24<<10) {
		t.Errorf("%d names of %d are kept in %d bytes, %v are lost", kept, processes*each, s.server.memory.used(), s.lost)
	}
	for _, conn := range conns {
		if err := conn.CloseWrite(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn)
	}
	s.server.Wait(patience)
	if left := s.server.memory.used(); left != 0 || len(s.server.memory.names) != 0 {
		t.Errorf("%d bytes stay taken", left)
	}
	if said := strings.Join(s.notes, "\n"); !strings.Contains(said, "names are missing: the names of all processes together need more than") {
		t.Errorf("said: %s", said)
	}
}

// TestSameNames has many processes send the same names: each text takes memory once.
func TestSameNames(t *testing.T) {
	t.Parallel()
	m := &peerMemory{most: 2 << 20}
	var tables [50]nameTable
	for i := range tables {
		for n := range uint32(64) {
			name := fmt.Sprintf("%16384d", n)
			if kept, err := tables[i].define(m, n+1, []byte(name)); err != nil || !kept {
				t.Fatalf("name %d of process %d: %t, %v", n, i, kept, err)
			}
		}
	}
	for i := range tables {
		tables[i].release(m)
	}
	if m.taken != 0 || len(m.names) != 0 {
		t.Errorf("%d bytes and %d names stay", m.taken, len(m.names))
	}
}

// TestLargeMessages has processes hold the memory of large messages: no more than all may take.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	m := &peerMemory{most: 3 * messageMax}
	refused := 0
	for range 20 {
		whole := appendFrame(nil, msgBatch, make([]byte, messageMax))
		r := messageReader{memory: m, r: bytes.NewReader(whole)}
		if _, _, err := r.next(); err != nil {
			if !strings.Contains(err.Error(), "no memory") {
				t.Fatal(err)
			}
			refused++
		}
		if m.used() > m.most {
			t.Errorf("%d bytes are taken", m.used())
		}
		defer r.release()
	}
	if refused != 17 {
		t.Errorf("%d messages are refused", refused)
	}
}

// TestTooManyProcesses fills the set of processes: the next is refused until one has ended.
func TestTooManyProcesses(t *testing.T) {
	t.Parallel()
	s := newPeerSet()
	peers := make([]peer, peersMax+1)
	for i := range peers {
		if added, full := s.admit(&peers[i]); added != (i < peersMax) || full == added {
			t.Fatalf("process %d: added %t, full %t", i, added, full)
		}
	}
	s.remove(&peers[0])
	if added, full := s.admit(&peers[peersMax]); !added || full {
		t.Errorf("added %t, full %t", added, full)
	}
}

// used is the number of bytes that are taken.
func (m *peerMemory) used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

// count is the number of records of a kind that have arrived.
func (s *tally) count(kind string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind]
}
