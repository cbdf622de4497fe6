package cupti

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A process that closes the connection after its hello ran on unrecorded: because GO came too late, or
// because its library could not start.
func TestAbsence(t *testing.T) {
	t.Parallel()
	for want, waited := range map[string]time.Duration{
		"the machine was so busy":                       helloPatience,
		"the injected library could not start in them:": -time.Hour, // in a time namespace
	} {
		s, err := Listen(Options{Sink: newTally()})
		if err != nil {
			t.Fatal(err)
		}
		a := &audience{}
		go s.Serve(a)
		conn := dial(t, s)
		hello := helloPayload(wireVersion, 4)
		le.PutUint64(hello[8:], monotonic()-uint64(waited))
		if _, err := conn.Write(appendFrame(nil, msgHello, hello)); err != nil {
			t.Fatal(err)
		}
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
	eventually(t, func() bool { return s.server.Has(me) }, func() string { return "it is not connected" })
	if len(s.peers) != 0 {
		t.Errorf("peers %+v", s.peers)
	}
}
