package cupti

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/cupti/shared"
	"github.com/cudatrace/cudatrace/record/errno"
)

// Owner is the user that the recorded programs run as.
type Owner = privatefolder.Owner

// Options are the options of Listen. Sink is required.
type Options struct {
	Sink  Sink
	Owner *Owner // nil for the user who runs the recorder

	// Within limits recording to these NVTX ranges. Programs may begin one before they start CUDA.
	Within NVTXRange

	library []byte   // nil for the embedded library
	bases   []string // nil for privatefolder.Bases
	private bool     // share no memory with processes
}

// A Server takes the reports of injected processes.
type Server struct {
	dir       string                // path of the private folder
	folder    *privatefolder.Folder // nil without one
	entrances []Entrance
	sink      Sink
	within    NVTXRange   // as of Options
	hub       *shared.Hub // nil: share no memory with processes

	peers     *peerSet
	memory    peerMemory
	newcomers newcomers
	closing   sync.Once
}

// newcomers is the state that processes get when they connect, in addition to the Handler's
// answer.
type newcomers struct {
	mu       sync.Mutex
	paused   bool
	ownClock bool // CUPTI keeps its own clock in them
}

func (n *newcomers) pause(paused bool) {
	n.mu.Lock()
	n.paused = paused
	n.mu.Unlock()
}

func (n *newcomers) keepOwnClock() {
	n.mu.Lock()
	n.ownClock = true
	n.mu.Unlock()
}

func (n *newcomers) config(c GoConfig) GoConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Paused = c.Paused || n.paused
	c.OwnClock = c.OwnClock || n.ownClock
	return c
}

// Listen makes a private folder, writes the library there and opens a socket beside it. Close
// removes the folder and its files.
func Listen(o Options) (*Server, error) {
	if o.Sink == nil {
		return nil, errors.New("cupti: Options without a Sink")
	}
	if o.library == nil {
		o.library = library
	}
	if len(o.library) == 0 {
		return nil, errNoLibrary
	}
	if o.bases == nil {
		o.bases = privatefolder.Bases()
	}
	owner := Owner{UID: os.Geteuid(), GID: os.Getegid()}
	if o.Owner != nil {
		owner = *o.Owner
	}
	f, err := privatefolder.Make(o.bases, o.library, owner)
	if err != nil {
		return nil, err
	}
	entrances := []Entrance{{f.Listener, owner}}
	return newServer(&Server{dir: f.Path, folder: f, sink: o.Sink, entrances: entrances, within: o.Within, peers: newPeerSet()}, o.private)
}

func newServer(s *Server, private bool) (*Server, error) {
	if private {
		return s, nil
	}
	var err error
	if s.hub, err = shared.NewHub(); err != nil {
		return nil, errors.Join(fmt.Errorf("there is no memory to share with processes: %w", err), s.leave())
	}
	return s, nil
}

// Serve accepts processes and answers them. It returns after Close.
func (s *Server) Serve(h Handler) {
	var all sync.WaitGroup
	for _, e := range s.entrances {
		all.Go(func() { s.accept(e, h) })
	}
	all.Wait()
}

// accept accepts the processes that come to an entrance.
func (s *Server) accept(e Entrance, h Handler) {
	var told sync.Once
	for {
		conn, err := e.Listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the process waits meanwhile
			told.Do(func() {
				h.Warn(0, "processes may run unrecorded: none can be accepted now: "+errno.Words(err))
			})
			time.Sleep(10 * time.Millisecond)
			continue
		}
		p := &peer{link: link{conn: conn, hub: s.hub}, server: s, owner: e.Owner, handler: h}
		added, full := s.peers.add(p)
		if !added {
			conn.Close()
		} else {
			go p.serve()
		}
		if full {
			h.Warn(0, fmt.Sprintf(
				"%d processes are recorded at a time: further ones run unrecorded until one of these has ended", peersMax))
		}
	}
}

// Wait waits until no process is connected or the time is over. It returns the number of
// connected processes.
func (s *Server) Wait(timeout time.Duration) int { return s.peers.wait(timeout) }

// Has says whether a process is connected. It may not have said hello yet.
func (s *Server) Has(pid uint32) bool { return s.peers.has(pid) }

// StopAll ends recording in all processes, which run on, and waits for their last records. A
// process that connects later runs unrecorded. It returns the number of processes that have not
// finished in time.
func (s *Server) StopAll(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	s.peers.close()
	s.peers.each(func(p *peer) { p.stop() })
	return s.Wait(time.Until(over))
}

// Pause stops recording in every process until Resume, and makes each send its records so far.
// A process that connects meanwhile waits for Resume, too.
func (s *Server) Pause() { s.setPaused(true, msgPause) }

// Resume resumes recording in every process, also in those with GoConfig.Paused.
func (s *Server) Resume() { s.setPaused(false, msgResume) }

func (s *Server) setPaused(paused bool, t messageType) {
	s.newcomers.pause(paused)
	s.peers.each(func(p *peer) { p.tell(t) })
}

// Rival tells a process that another CUPTI client has registered its own buffer callbacks
// there. The process leaves CUPTI alone from then on, so that the other client is not
// disturbed, and sends its records up to here. A Note and the CUPTI record say so. See also
// GoConfig.WatchRivals.
func (s *Server) Rival(pid uint32) {
	s.peers.each(func(p *peer) { p.tellIf(pid, msgRival) })
}

// RecordRuntime makes a process record the calls of the runtime although it was told to find
// [GoConfig.Callers]. There are no callers from then on.
func (s *Server) RecordRuntime(pid uint32) {
	s.peers.each(func(p *peer) { p.tellIf(pid, msgRuntime) })
}

// Close ends all connections, waits for their End, and removes the folder with the socket and
// the library. The processes run on.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Server) close() error {
	s.peers.close()
	err := s.closeEntrances()
	s.peers.each(func(p *peer) { p.hangUp() })
	s.peers.active.Wait()
	if s.hub != nil {
		s.hub.Close()
	}
	return errors.Join(err, s.leave())
}

func (s *Server) closeEntrances() (err error) {
	for _, e := range s.entrances {
		if failed := e.Listener.Close(); !errors.Is(failed, net.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// leave closes the entrances and removes the folder.
func (s *Server) leave() error {
	err := s.closeEntrances()
	if s.folder != nil {
		err = errors.Join(err, s.folder.Remove())
	}
	return err
}
