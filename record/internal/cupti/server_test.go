package cupti

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
)

// The folder of a server has the embedded library, until the first Close.
func TestServerFolder(t *testing.T) {
	t.Parallel()
	s := must.Get(Listen(Options{Sink: nowhere{}, bases: []string{t.TempDir()}}))(t)
	got, err := os.ReadFile(filepath.Join(s.dir, privatefolder.LibraryName))
	if err != nil || !slices.Equal(got, library) {
		t.Errorf("the library has %d bytes, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// choosy is an audience that leaves all processes out.
type choosy struct{ *audience }

func (choosy) Wants(Peer) bool { return false }

// A process that is not wanted runs as it does alone.
func TestProcessNotWanted(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"vectoradd", "launchloop"} {
		s := &stage{tally: newTally(), audience: &audience{}}
		server := must.Get(Listen(Options{Sink: s.tally, bases: []string{t.TempDir(), "/tmp"}}))(t)
		s.server = server
		go server.Serve(choosy{s.audience})
		if _, stderr, code := s.run(t, play{simProgram(t, program), nil, nil}); code != 0 || stderr != "" {
			t.Errorf("%s printed %q and ended with %d", program, stderr, code)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if len(s.peers)+len(s.ends)+len(s.notes)+len(s.counts) != 0 {
			t.Errorf("%s: %d hellos, %d ends, notes %q, records %v", program, len(s.peers), len(s.ends), s.notes, s.counts)
		}
	}
}

// A process that closes the connection after its hello ran on unrecorded: because GO came too late, or
// because its library could not start. Nothing is said of one that has ended, even if its PID has another process.
func TestAbsence(t *testing.T) {
	t.Parallel()
	for want, waited := range map[string]time.Duration{
		"the machine was so busy":                       helloPatience,
		"the injected library could not start in them:": -time.Hour, // in a time namespace
	} {
		s := must.Get(Listen(Options{Sink: newTally()}))(t)
		a := &audience{}
		go s.Serve(a)
		conn := dial(t, s)
		hello := helloPayload(wireVersion)
		le.PutUint64(hello[8:], monotonic()-uint64(waited))
		must.Get(conn.Write(appendFrame(nil, msgHello, hello)))(t)
		if _, err := io.ReadFull(conn, make([]byte, frameSize)); err != nil { // GO
			t.Fatal(err)
		}
		conn.Close()
		s.Wait(patience)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(a.ends) != 1 || a.ends[0].Complete != 0 || !strings.HasPrefix(a.ends[0].Absent, want) {
			t.Errorf("after %v: ends %+v, want %q", waited, a.ends, want)
		}
	}
	if why := (&peer{Peer: Peer{PID: uint32(os.Getpid())}, started: 1}).absence(); why != "" {
		t.Errorf("of one that has ended it is said: %s", why)
	}
}

// TestHas: a process that is connected is known, whether or not there was time for its hello.
func TestHas(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	me := uint32(os.Getpid())
	if s.server.Has(me) {
		t.Error("it is connected already")
	}
	dial(t, s.server)
	must.Wait(t, func() bool { return s.server.Has(me) }, func() string { return "it is not connected" })
	if len(s.peers) != 0 {
		t.Errorf("peers %+v", s.peers)
	}
}

// TestDescriptorsOfOthers passes descriptors with messages that should have none. The program keeps none of them.
func TestDescriptorsOfOthers(t *testing.T) {
	t.Parallel()
	for name, last := range map[string][]byte{
		"wait":     appendFrame(nil, msgWait, nil),
		"nonsense": appendFrame(nil, msgBatch, nil),
		"long":     appendFrame(nil, msgWait, make([]byte, 9)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			must.Do(t, removeSocket(s.server))
			l := listenAt(t, filepath.Join(s.server.dir, privatefolder.SocketName))
			go func() {
				defer write.Close()
				conn, err := l.AcceptUnix()
				if err != nil {
					return
				}
				defer conn.Close()
				passOn(t, conn, appendFrame(nil, msgWait, nil), write)
				passOn(t, conn, last, write)
				_ = conn.CloseWrite()            // or it is closed already
				_, _ = io.Copy(io.Discard, conn) // likewise
			}()
			cmd, input := s.waiting(t, "off", nil)
			must.Do(t, read.SetReadDeadline(time.Now().Add(patience)))
			if _, err := read.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the program has a descriptor of ours: %v", err)
			}
			input.Close()
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("the program ended with %v", err)
			}
		})
	}
}

// passOn sends a message with descriptors of a file.
func passOn(t *testing.T, conn *net.UnixConn, message []byte, f *os.File) {
	if _, _, err := conn.WriteMsgUnix(message, unix.UnixRights(int(f.Fd()), int(f.Fd())), nil); err != nil {
		t.Error(err)
	}
}

// slow is an audience that answers a hello when it is told to.
type slow struct {
	*audience
	told chan struct{}
}

func (s slow) Hello(p Peer) (GoConfig, Listener) {
	<-s.told
	return s.audience.Hello(p)
}

// TestWait tells a process that waits for GO to wait on, until GO comes.
func TestWait(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	handler := slow{s.audience, make(chan struct{})}
	server := must.Get(Listen(Options{Sink: s.tally, bases: []string{t.TempDir(), "/tmp"}}))(t)
	go server.Serve(handler)
	defer server.Close()
	conn := dial(t, server)
	must.Get(conn.Write(stream()))(t)
	must.Do(t, conn.SetReadDeadline(time.Now().Add(patience)))
	for i, want := range []messageType{msgWait, msgWait, msgGo} {
		frame := make([]byte, frameSize)
		must.Get(io.ReadFull(conn, frame))(t)
		if got := messageType(le.Uint16(frame[4:])); got != want {
			t.Errorf("message %d is of type %d, want %d", i, got, want)
		}
		if i == 1 {
			close(handler.told)
		}
	}
}

// A process whose hello is read in time waits for as long as it hears from the recorder, up to its last deadline. One whose
// hello is read too late waits no more.
func TestPatience(t *testing.T) {
	now := host.Monotonic()
	for first, want := range map[uint64]uint64{
		now + uint64(time.Hour): now + uint64(time.Hour+helloMost-helloPatience),
		now:                     now,
	} {
		last := lastDeadline(first)
		if last != want {
			t.Errorf("the last deadline is %d ns after the first", last-first)
		}
		if left := (Peer{last: last}).Patience(); (left > 0) != (last > now) {
			t.Errorf("the process waits for %v", left)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	s := &Server{dir: "/tmp/x"}
	got := s.Environ([]string{"A=b", InjectionVar + "=/other.so", NVTXVar + "=/n.so", InjectionVar + "_NOT=1"})
	want := []string{"A=b", InjectionVar + "_NOT=1",
		InjectionVar + "=/tmp/x/libcudatrace.so", NVTXVar + "=/tmp/x/libcudatrace.so"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"": "", InjectionVar + "=": "", "CUDA_INJECTION64_PATHS=/x": "",
		InjectionVar + "=/nsys.so": InjectionVar + "=/nsys.so", NVTXVar + "=/n.so": NVTXVar + "=/n.so",
		NVTXVar + "=/usr/lib/libcupti.so.13": "", InjectionVar + "=/usr/lib/libcupti.so.13": InjectionVar + "=/usr/lib/libcupti.so.13",
	} {
		if got := Conflict([]string{"A=b", env}); got != want {
			t.Errorf("%q: got %q", env, got)
		}
	}
	armed := must.Get(privatefolder.MakeArmed([]string{t.TempDir()}, library, 0))(t)
	if env := []string{InjectionVar + "=" + armed}; Conflict(env) != "" || !IsArmed(env) || IsArmed([]string{InjectionVar + "=/nsys.so"}) {
		t.Error("programs that wait for a recorder have a conflict, or are not known")
	}
}

// resident returns a process's resident memory in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// launchedAndWaits starts a program that launches far more than fits, and waits.
func launchedAndWaits(t *testing.T, environ []string) (pid int, finish func()) {
	t.Helper()
	cmd := play{"program", []string{"wait", "4", "50000"}, nil}.command(t, environ)
	input, output := started(t, cmd)
	must.Get(io.ReadFull(output, make([]byte, len("waiting\n"))))(t)
	return cmd.Process.Pid, func() {
		input.Close()
		_, _ = io.Copy(io.Discard, output)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("the program ended with %v", err)
		}
	}
}

// TestMemoryIsBounded has a recorder that reads nothing while a program makes far more
// records than fit: what recording adds to the program stays within the limit.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{4 << 20, 16 << 20} {
		t.Run(fmt.Sprintf("%d-MiB", limit>>20), func(t *testing.T) {
			t.Parallel()
			pid, finish := launchedAndWaits(t, os.Environ())
			plain := resident(t, pid)
			finish()

			s := newStage(t, Options{}, GoConfig{})
			must.Do(t, removeSocket(s.server))
			l := listenAt(t, filepath.Join(s.server.dir, privatefolder.SocketName))
			config := GoConfig{MemoryLimit: uint64(limit), FlushInterval: 10 * time.Millisecond, ExitWait: 100 * time.Millisecond}
			go func() {
				if conn, err := l.AcceptUnix(); err == nil {
					s.answered(t, conn, config)
				}
			}()
			pid, finish = launchedAndWaits(t, s.server.Environ(os.Environ()))
			grown := resident(t, pid) - plain
			// Of 4 MiB about one holds records, the rest is room for names and reserves, which is not
			// touched here. That there is any growth says that records were made.
			if grown > limit || grown < limit/8 {
				t.Errorf("the program grew by %d bytes, the limit is %d", grown, limit)
			}
			t.Logf("the program grew by %d bytes", grown)
			finish()
		})
	}
}
