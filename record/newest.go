package record

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/ring"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/wording"
)

// Newest are the options of a recording of which only the newest part is kept.
type Newest struct {
	Last       time.Duration // the time that is kept; 0: everything
	DiskLimit  uint64        // most bytes of it
	Conditions []ring.Condition
	Steps      tracelog.Steps
	CoolDown   time.Duration // least time between two files that conditions ask for
	MaxFiles   int           // most files, without the one at the end
	// Written is called for each file that is written while the recording goes on, with the options under
	// which the file was made. No two calls overlap.
	Written func(Options, Result)
}

// A newest writes files of the newest part of a recording that goes on.
type newest struct {
	opts   Options
	ring   *ring.Ring
	watch  *ring.Watch
	report *report
	owing  func() []uint32 // processes that will still hand over GPU records

	asked   chan os.Signal
	crashes chan string
	stop    chan struct{}
	over    chan struct{} // closed when run has returned
	written chan struct{} // gets a token when a file has been written
	writing bool
	wish    *wish
	files   int
	quiet   time.Time // until then no condition holds
	full    bool      // it was said that there are MaxFiles
}

// A wish is a file that is to be written when the log has every record of its time.
type wish struct {
	why      string
	at       uint64    // end of the window
	deadline time.Time // for records that are on their way
}

// wishPatience is the time beyond two flush intervals in which processes have to hand over their records.
const wishPatience = 10 * time.Second

func newNewest(o Options, r *ring.Ring, report *report, owing func() []uint32) *newest {
	n := &newest{opts: o, ring: r, report: report, owing: owing,
		asked: make(chan os.Signal, 1), crashes: make(chan string, 1), stop: make(chan struct{}), over: make(chan struct{}),
		written: make(chan struct{}, 1)}
	signal.Notify(n.asked, syscall.SIGUSR2)
	return n
}

// lookParts is how often the segments are looked at in the time that is kept.
const lookParts = 16

// run watches the recording until finish. calls says where calls come from.
func (n *newest) run(calls CallSource) {
	defer close(n.over)
	kind := tracelog.KindCall
	if calls == CallsCUPTI {
		kind = tracelog.KindAPI
	}
	n.watch = ring.NewWatch(n.ring, n.opts.Conditions, n.opts.Steps, kind)
	tick := time.NewTicker(min(n.opts.FlushInterval/2, n.opts.Last/lookParts))
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-n.asked:
			n.want("SIGUSR2", true)
		case why := <-n.crashes:
			n.want(why, true)
		case <-n.written:
			n.writing = false
		case <-tick.C:
			n.look()
		}
	}
}

// finish stops watching, and waits until a file that is being written is whole. It returns why the file
// at the end is written: a wish that is left is granted by that, or the program has crashed, for a reason.
func (n *newest) finish(pid uint32, reason string) (why string) {
	close(n.stop)
	<-n.over
	if n.writing {
		<-n.written
	}
	n.lastLook()
	if n.wish != nil {
		n.report.say(fmt.Sprintf("%s: the recording ended before a file of its own was written; %s%s has it", n.wish.why, n.opts.Output, LogSuffix))
	}
	select {
	case why := <-n.crashes:
		return why
	default:
	}
	if n.wish != nil {
		return n.wish.why
	}
	if isCrash(reason) {
		return crashText(pid, reason)
	}
	return atTheEnd
}

// lastLook holds the last records against the conditions. After the first look the name of a call may still be waited for.
func (n *newest) lastLook() {
	if n.watch == nil {
		return
	}
	_ = n.report.log.Flush() // what is not written is counted
	for range 2 {
		if why, _ := n.watch.Look(); why != "" {
			n.want(why, false)
		}
	}
	n.watch.Close()
}

// atTheEnd says why a file is written at the end of a recording.
const atTheEnd = "the end of the recording"

// look removes what is old, and holds what is new against the conditions.
func (n *newest) look() {
	until := n.ring.Now()
	if n.wish != nil {
		until = n.wish.at
	}
	if err := n.ring.Tick(until); err != nil {
		n.report.miss(0, "the newest part of the log is not kept as it should be: "+err.Error())
	}
	why, err := n.watch.Look()
	if err != nil {
		n.report.miss(0, "conditions are not watched: "+err.Error())
	}
	if why != "" {
		n.want(why, false)
	}
	if n.wish != nil && !n.writing {
		if late := n.late(); len(late) == 0 || time.Now().After(n.wish.deadline) {
			n.grant(late)
		}
	}
}

// crashed is called when a process has ended for a reason.
func (n *newest) crashed(pid uint32, reason string) {
	if !isCrash(reason) {
		return
	}
	select {
	case n.crashes <- crashText(pid, reason):
	default: // one is reported already
	}
}

func crashText(pid uint32, reason string) string {
	return fmt.Sprintf("process %d was ended by %s", pid, reason)
}

// isCrash reports whether the reason of a process's end is a signal by which nobody ends a process on purpose.
func isCrash(reason string) bool {
	_, name, _ := strings.Cut(strings.TrimSuffix(reason, ")"), "(")
	return strings.HasPrefix(reason, "signal ") && !slices.Contains([]string{"SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGUSR2", "SIGALRM"}, name)
}

// want notes a wish for a file, unless there are too many. asked says that a person asks, or a crash: then
// there is no cool-down.
func (n *newest) want(why string, asked bool) {
	switch {
	case n.wish != nil, !asked && time.Now().Before(n.quiet):
		return
	case n.files >= n.opts.MaxFiles:
		if !n.full || asked {
			n.full = true
			n.report.say(fmt.Sprintf("%s: no file is written, since there are %d already (%s)", why, n.files, wording.MaxFiles))
		}
		return
	}
	n.wish = &wish{why, n.ring.Now(), time.Now().Add(2*n.opts.FlushInterval + wishPatience)}
}

// late lists the processes whose records up to the time of the wish are not all in the log; 0 stands for
// the calls.
func (n *newest) late() (pids []uint32) {
	for _, pid := range n.owing() {
		if n.watch.Flushed(pid) < n.wish.at {
			pids = append(pids, pid)
		}
	}
	return pids
}

// grant begins to write the file of the wish. late are the processes that have not handed over their
// records.
func (n *newest) grant(late []uint32) {
	w := n.wish
	n.wish = nil
	window, err := n.ring.Snapshot(w.at)
	if err != nil {
		n.report.say(fmt.Sprintf("%s: no file is written: %v", w.why, err))
		return
	}
	n.files++
	n.quiet = time.Now().Add(n.opts.CoolDown)
	n.writing = true
	o := n.opts
	o.Output = fmt.Sprintf("%s.%d", o.Output, n.files)
	reasons := slices.Clone(n.report.missing.list())
	for _, pid := range late {
		reasons = append(reasons, lateText(pid))
	}
	go func() {
		n.write(o, window, w, reasons)
		n.written <- struct{}{}
	}()
}

func lateText(pid uint32) string {
	if pid == 0 {
		return "the last calls had not been read when this file was written"
	}
	return fmt.Sprintf("process %d had not handed over its last GPU records when this file was written", pid)
}

// write writes a file.
func (n *newest) write(o Options, window *ring.Snapshot, w *wish, reasons []string) {
	l, err := placeLog(o)
	if err != nil {
		window.Done()
		o.Say(fmt.Sprintf("%s: %v", w.why, err))
		return
	}
	res := Result{Output: o.Output}
	l.join(window, w.why, endOf(w.at, reasons), &res)
	o.Written(o, res)
	if res.File != nil {
		res.File.Close()
	}
	l.target.Close()
	l.trace.Close()
}
