package record

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ring"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Newest are the options of a recording of which only the newest part is kept.
type Newest struct {
	Last       time.Duration // the time that is kept; 0: everything
	DiskLimit  uint64        // most bytes of it
	Conditions []ring.Condition
	Steps      pattern.Ranges
	CoolDown   time.Duration // least time between two files that conditions ask for
	MaxFiles   int           // most files, without the one at the end
	// Written is called for each file that is written while the recording goes on, with the options under
	// which the file was made. No two calls overlap.
	Written func(Options, Result)
}

// A newest writes files of the newest part of a recording that goes on. It belongs to the loop. Looks at what has been
// recorded, and files, are the work of other goroutines: one look and one file at a time. The zero newest writes none.
type newest struct {
	ring    *ring.Ring  // nil: everything is kept
	watch   *ring.Watch // belongs to the look that is under way
	asked   chan os.Signal
	looks   <-chan time.Time // fires when it is time for a look
	looking bool
	writing bool
	work    sync.WaitGroup // looks and files
	wish    *wish
	files   int
	quiet   time.Time // until then no condition holds
	full    bool      // it was said that there are as many files as there may be
}

// A wish is a file that is to be written when the log has every record of its time.
type wish struct {
	why      string       // "" for a condition
	reason   *ring.Reason // the condition
	at       uint64       // end of the window
	deadline time.Time    // for records that are on their way
	asked    bool         // settled will come
	settled  bool         // the log has the callers of all calls up to the end of the window
}

// words say why the file is written. certain is false while a record is missing that has a part in them.
func (w *wish) words(watch *ring.Watch) (why string, certain bool) {
	if w.reason == nil {
		return w.why, true
	}
	return watch.Words(w.reason)
}

// wishPatience is the time beyond two flush intervals in which processes have to hand over their records.
const wishPatience = 10 * time.Second

// lookParts is how often the segments are looked at in the time that is kept.
const lookParts = 16

// keepIn has the newest part kept in a ring. From then on SIGUSR2 asks for a file.
func (n *newest) keepIn(r *ring.Ring) {
	n.ring, n.asked = r, make(chan os.Signal, 1)
	signal.Notify(n.asked, syscall.SIGUSR2)
}

// begin begins to watch a recording. It is known by then where calls come from.
func (n *newest) begin(s *session) {
	if n.ring == nil {
		return
	}
	kind := tracelog.KindCall
	if s.calls.source == CallsCUPTI {
		kind = tracelog.KindAPI
	}
	n.watch = ring.NewWatch(n.ring, s.opts.Conditions, s.opts.Steps, kind)
	n.looks = time.Tick(min(s.opts.FlushInterval/2, s.opts.Last/lookParts))
}

// lookAtNewest has what is old removed, and what is new held against the conditions.
func (s *session) lookAtNewest() {
	n := &s.newest
	if n.looking {
		return
	}
	n.looking = true
	until, settled := n.ring.Now(), false
	if n.wish != nil {
		until, settled = n.wish.at, n.wish.settled
	}
	n.work.Go(func() {
		if settled {
			_ = s.log.Flush() // what is not written is counted
		}
		if err := n.ring.Tick(until); err != nil {
			s.report.miss(0, "the newest part of the log is not kept as it should be: "+err.Error())
		}
		held, err := n.watch.Look()
		if err != nil {
			s.report.miss(0, "conditions are not watched: "+err.Error())
		}
		s.post(watched{held, settled})
	})
}

// watched is the event that the records of a look were held against the conditions.
type watched struct {
	held    *ring.Reason // the condition that held first, nil for none
	settled bool         // the look began when the wish was settled
}

func (e watched) take(s *session) {
	n := &s.newest
	n.looking = false
	if e.held != nil {
		s.want(wish{reason: e.held}, false)
	}
	w := n.wish
	if w == nil || n.writing || isClosed(s.decided) {
		return
	}
	late := s.behind(w.at)
	why, certain := w.words(n.watch)
	switch waits := time.Now().Before(w.deadline); {
	case waits && len(late) > 0:
	case waits && !certain && !e.settled:
		if !w.asked {
			w.asked = s.calls.callers.After(func() { s.post(settled{w}) })
		}
	default:
		s.grant(why, late)
	}
}

// settled is the event that all callers are in the log of calls up to the time of a wish.
type settled struct{ *wish }

func (e settled) take(*session) { e.wish.settled = true }

// want notes a wish for a file, unless there are too many. asked says that a person asks, or a crash: then
// there is no cool-down.
func (s *session) want(w wish, asked bool) {
	n := &s.newest
	switch {
	case n.ring == nil, n.wish != nil, !asked && time.Now().Before(n.quiet):
		return
	case n.files >= s.opts.MaxFiles:
		if !n.full || asked {
			n.full = true
			why, _ := w.words(n.watch)
			s.sayOfFile(why, fmt.Sprintf("no file is written, since there are %d already (--max-files)", n.files))
		}
		return
	}
	w.at, w.deadline = n.ring.Now(), time.Now().Add(2*s.opts.FlushInterval+wishPatience)
	n.wish = &w
}

// sayOfFile says what becomes of a file that was to be written for a reason.
func (s *session) sayOfFile(why, what string) {
	s.later.Do(func() { s.report.say(why + ": " + what) })
}

// behind lists the processes whose records up to a time are not all in the log; 0 stands for the calls.
func (s *session) behind(at uint64) []uint32 {
	owing := s.which(func(p *recordedProcess) bool { return p.owes() && !p.end.Cut })
	if s.calls.probed {
		owing = append(owing, 0)
	}
	return slices.DeleteFunc(owing, func(pid uint32) bool { return s.newest.watch.Flushed(pid) >= at })
}

// grant has the file of the wish written. late are the processes that have not handed over their
// records.
func (s *session) grant(why string, late []uint32) {
	n, at := &s.newest, s.newest.wish.at
	n.wish, n.writing = nil, true
	n.files++
	n.quiet = time.Now().Add(s.opts.CoolDown)
	o := s.opts
	o.Output = fmt.Sprintf("%s.%d", s.output, n.files)
	n.work.Go(func() {
		err := s.write(o, why, at, late)
		if err != nil {
			s.report.say(fmt.Sprintf("%s: no file is written: %v", why, err))
		}
		s.post(written(err == nil))
	})
}

// written is the event that a file has been written, or that there is none.
type written bool

func (e written) take(s *session) {
	s.newest.writing = false
	if !e {
		s.newest.files--
	}
}

// write writes a file.
func (s *session) write(o Options, why string, at uint64, late []uint32) error {
	reasons := slices.Clone(s.report.missing.list())
	for _, pid := range late {
		reasons = append(reasons, lateText(pid))
	}
	window, err := s.newest.ring.Snapshot(at)
	if err != nil {
		return err
	}
	l, err := placeLog(o)
	if err != nil {
		window.Done()
		return err
	}
	res := Result{Output: o.Output}
	l.join(window, why, endOf(at, reasons), &res)
	o.Written(o, res)
	if res.File != nil {
		res.File.Close()
	}
	l.target.Close()
	l.trace.Close()
	return nil
}

func lateText(pid uint32) string {
	if pid == 0 {
		return "the last calls had not been read when this file was written"
	}
	return fmt.Sprintf("process %d had not handed over its last GPU records when this file was written", pid)
}

// endNewest waits until a file that is being written is whole, and holds the last records against the conditions. The
// log has all records by then. It returns why the file at the end is written: for a wish that is left, or because the
// program has crashed.
func (s *session) endNewest() (why string) {
	n := &s.newest
	if n.ring == nil {
		return ""
	}
	n.work.Wait()
	if n.watch != nil {
		defer n.watch.Close()
		_ = s.log.Flush() // what is not written is counted
		if held, _ := n.watch.Look(); held != nil {
			s.tell(question(func() { s.want(wish{reason: held}, false) }))
		}
	}
	return ask(s, func() string {
		p := s.latest[s.programPID()]
		switch {
		case n.wish != nil:
			why, _ := n.wish.words(n.watch)
			s.sayOfFile(why, fmt.Sprintf("the recording ended before a file of its own was written; %s%s has it", s.output,
				LogSuffix))
			return why
		case p != nil && isCrash(p.reason()):
			return crashText(p.pid, p.reason())
		}
		return atTheEnd
	})
}

// atTheEnd says why a file is written at the end of a recording.
const atTheEnd = "the end of the recording"

func crashText(pid uint32, reason string) string {
	return fmt.Sprintf("process %d was ended by %s", pid, reason)
}

// isCrash reports whether the reason of a process's end is a signal by which nobody ends a process on purpose.
func isCrash(reason string) bool {
	_, name, _ := strings.Cut(strings.TrimSuffix(reason, ")"), "(")
	return strings.HasPrefix(reason, "signal ") &&
		!slices.Contains([]string{"SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGUSR2", "SIGALRM"}, name)
}
