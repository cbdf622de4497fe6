package cupti

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/host"
)

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
			if err := removeSocket(s.server); err != nil {
				t.Fatal(err)
			}
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
			if err := read.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
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

func (s slow) Hello(p Peer) (GoConfig, Follower) {
	<-s.told
	return s.audience.Hello(p)
}

// TestWait tells a process that waits for GO to wait on, until GO comes.
func TestWait(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	handler := slow{s.audience, make(chan struct{})}
	server, err := Listen(Options{Sink: s.tally, bases: []string{t.TempDir(), "/tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(handler)
	defer server.Close()
	conn := dial(t, server)
	if _, err := conn.Write(stream()); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []messageType{msgWait, msgWait, msgGo} {
		frame := make([]byte, frameSize)
		if _, err := io.ReadFull(conn, frame); err != nil {
			t.Fatal(err)
		}
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
