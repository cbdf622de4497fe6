package cupti

import "testing"

// choosy is an audience that leaves all processes out.
type choosy struct{ *audience }

func (choosy) Wants(Peer) bool { return false }

// A process that is not wanted runs as it does alone.
func TestProcessNotWanted(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"vectoradd", "launchloop"} {
		s := &stage{tally: newTally(), audience: &audience{}}
		server, err := Listen(Options{Sink: s.tally, bases: []string{t.TempDir(), "/tmp"}})
		if err != nil {
			t.Fatal(err)
		}
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
