package stuck

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/internal/blocked"
)

// judge gives each process that a person named a verdict.
func (g *group) judge() {
	for _, l := range g.looks {
		if l.named {
			l.Verdict = g.verdict(l)
		}
	}
}

// A chain is who waits for what, from a thread on.
type chain struct {
	text    string
	outcome Outcome
	length  int
	on      map[node]bool // the threads of it
	starved bool          // it ends at a thread that gets no processor
}

// A node is a thread.
type node struct {
	pid int
	tid uint32
}

// verdict returns the verdict on a process: of the chains of its threads that end in a cause that one of which most
// threads wait for it, that of the main thread if it is one of these.
func (g *group) verdict(l *look) Verdict {
	if len(l.Threads) == 0 {
		return Verdict{Outcome: Unknown, Text: "it ended while it was looked at"}
	}
	if l.isEach(func(t *Thread) bool { return t.State == "stopped" || t.State == "traced" }) {
		return Verdict{Outcome: Stuck, Text: l.stopped(&l.Threads[0]), TID: l.Threads[0].TID}
	}
	var best *Thread
	var worst chain
	waiters := map[node]int{} // threads whose chains lead over a thread
	chains := make([]chain, len(l.Threads))
	for i := range l.Threads {
		c := g.follow(l, &l.Threads[i], nil)
		chains[i] = c
		if c.outcome == Stuck {
			for n := range c.on {
				waiters[n]++
			}
		}
	}
	for i := range l.Threads {
		t, c := &l.Threads[i], chains[i]
		if c.outcome == Stuck && (best == nil || best.TID != uint32(l.PID) && c.length > worst.length) {
			best, worst = t, c
		}
	}
	if best != nil {
		text := worst.text
		if more := waiters[node{l.PID, best.TID}]; more > 1 {
			text += fmt.Sprintf("; %s behind it", figures.Count(more-1, "thread waits", "threads wait"))
		}
		return Verdict{Stuck, text, best.TID}
	}
	if v, ok := l.atGPU(); ok {
		return v
	}
	if v, ok := g.allAtLocks(l); ok {
		return v
	}
	if v, ok := g.atPythonLock(l); ok {
		return v
	}
	if v, ok := g.workerGone(l); ok {
		return v
	}
	return l.healthy(chains)
}

func (l *look) isEach(is func(*Thread) bool) bool {
	return !slices.ContainsFunc(l.Threads, func(t Thread) bool { return !is(&t) })
}

// healthy is the verdict on a process that is not stuck.
func (l *look) healthy(chains []chain) Verdict {
	var most *Thread
	moving := 0
	for i := range l.Threads {
		if t := &l.Threads[i]; t.Moved != "" {
			moving++
			if most == nil || t.Ran > most.Ran {
				most = t
			}
		}
	}
	if most != nil {
		text := fmt.Sprintf("%s moves: %s", l.name(most), place(most))
		if place(most) == "" {
			text = l.name(most) + " moves"
		}
		if moving > 1 {
			text += fmt.Sprintf(", and %s", figures.Count(moving-1, "thread more", "threads more"))
		}
		return Verdict{Moving, text, most.TID}
	}
	first := &l.Threads[0]
	outcome := chains[0].outcome
	if outcome != Moving {
		outcome = Waiting
	}
	return Verdict{outcome, chains[0].text, first.TID}
}

// name names a thread.
func (l *look) name(t *Thread) string {
	if t.TID == uint32(l.PID) {
		return "the main thread"
	}
	return fmt.Sprintf("thread %d (%s)", t.TID, t.Name)
}

// title names a process.
func (l *look) title() string { return processTitle(l.PID, l.Program) }

func processTitle(pid int, program string) string {
	return fmt.Sprintf("process %d (%s)", pid, figures.Cut(program, 60))
}

// place says where in the program a thread is, "" if that is not known.
func place(t *Thread) string {
	if len(t.Python) > 0 {
		f := t.Python[0]
		return fmt.Sprintf("%s:%d (%s)", filepath.Base(f.File), f.Line, f.Function)
	}
	return ""
}

// atPlace is place as the end of a sentence.
func atPlace(t *Thread) string {
	if p := place(t); p != "" {
		return " at " + p
	}
	return ""
}

// does says what a thread does that is blocked.
func does(t *Thread) string {
	at := atPlace(t)
	switch {
	case t.CUDA != nil:
		return fmt.Sprintf("has been in %s for %.0f s%s", t.CUDA.Name, t.CUDA.Since, at)
	case t.Call == "nanosleep" || t.Call == "clock_nanosleep":
		return fmt.Sprintf("sleeps in %s%s", t.Call, at)
	case t.isStarved():
		return fmt.Sprintf("is ready to run, and had a processor for %.0f %% of the time%s", t.Ran*100, at)
	case t.Call == "":
		return "runs" + at
	case t.On == blocked.OnGIL:
		return "waits for the GIL" + at
	case t.On == blocked.OnLock:
		return "waits for a lock" + at
	case t.On == blocked.OnThread:
		return "waits for the end of a thread" + at
	case t.On != "":
		return fmt.Sprintf("is blocked in %s on %s%s", t.Call, article(t.On), at)
	}
	return fmt.Sprintf("is blocked in %s%s", t.Call, at)
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (l *look) stopped(t *Thread) string {
	if t.State == "traced" {
		return fmt.Sprintf("a debugger has stopped it: process %d", l.tracer(t.TID))
	}
	return fmt.Sprintf("a signal has stopped it (SIGSTOP or another); 'kill -CONT %d' has it go on", l.PID)
}

// follow follows what a thread waits for. path are the threads before it.
func (g *group) follow(l *look, t *Thread, path []node) chain {
	here := node{l.PID, t.TID}
	if slices.Contains(path, here) {
		return chain{text: "each waits for the other (deadlock)", outcome: Stuck, on: map[node]bool{}}
	}
	if len(path) == 0 {
		g.known = map[node]chain{}
	} else if c, known := g.known[here]; known {
		c.on = maps.Clone(c.on)
		return c
	}
	path = append(path, here)
	c := g.next(l, t, path)
	c.length++
	if c.on == nil {
		c.on = map[node]bool{}
	}
	c.on[here] = true
	kept := c
	kept.on = maps.Clone(c.on)
	g.known[here] = kept
	return c
}

// next is follow for a thread that is not in the path before.
func (g *group) next(l *look, t *Thread, path []node) chain {
	who := l.name(t)
	v := &t.seen
	switch {
	case t.State == "stopped" || t.State == "traced":
		return chain{text: who + " is stopped: " + l.stopped(t), outcome: Stuck}
	case t.Moved == "" && t.CUDA != nil && t.CUDA.Waits:
		return chain{text: who + " " + does(t), outcome: Waiting}
	case t.isStarved():
		return chain{text: who + " " + does(t), outcome: Waiting, starved: true}
	case t.Moved != "" || !v.blocked:
		return chain{text: fmt.Sprintf("%s moves%s", who, atPlace(t)), outcome: Moving}
	case t.State == "uninterruptible" && t.Woken == 0:
		text := fmt.Sprintf("%s %s, in the kernel", who, does(t))
		if t.Channel != "" {
			text += " (" + t.Channel + ")"
		}
		return chain{text: text, outcome: Stuck}
	case t.Holder != 0 && l.thread(t.Holder) != nil:
		return g.held(l, t, l.thread(t.Holder), path)
	case isFileCall(v) && t.Woken == 0:
		return chain{text: who + " " + does(t), outcome: Stuck}
	case v.pipe != "":
		return g.atPipe(l, t, path)
	case v.why.Call == "wait4" || v.why.Call == "waitid":
		return g.atChildren(l, t, path)
	}
	return chain{text: who + " " + does(t), outcome: Waiting}
}

// isStarved reports whether a thread is ready to run, and had no processor, or too little of one to tell what it does.
func (t *Thread) isStarved() bool { return t.Moved == "" && isReady(&t.seen) && t.Ran < busy }

// isFileCall reports whether a thread is in a call that a file system answers: it takes long only where that does not.
func isFileCall(v *view) bool {
	switch v.why.Call {
	case "open", "openat", "stat", "fsync", "fdatasync":
		return true
	}
	return v.why.On == "file" && v.why.Call != "flock" && v.why.Call != "fcntl" && v.why.Call != "ioctl"
}

func (l *look) thread(tid uint32) *Thread {
	if l.Threads[0].TID == tid {
		return &l.Threads[0]
	}
	others := l.Threads[1:]
	i, found := slices.BinarySearchFunc(others, tid, func(t Thread, tid uint32) int { return cmp.Compare(t.TID, tid) })
	if !found {
		return nil
	}
	return &others[i]
}

// held follows what another thread has: a lock, the GIL, or itself.
func (g *group) held(l *look, t, holder *Thread, path []node) chain {
	who, it := l.name(t), "a lock"
	switch t.On {
	case blocked.OnThread:
		c := g.follow(l, holder, path)
		c.text = fmt.Sprintf("%s waits for the end of %s%s; %s", who, l.name(holder), atPlace(t), c.text)
		return c
	case blocked.OnGIL:
		it = "the GIL"
		if holder.TID == t.TID { // it was the last one to have it
			return chain{text: who + " " + does(t), outcome: Waiting}
		}
	}
	if slices.Contains(path, node{l.PID, holder.TID}) {
		return chain{
			text: fmt.Sprintf("%s waits for %s%s that %s has: each waits for the other (deadlock)", who, it, atPlace(t),
				l.name(holder)), outcome: Stuck,
		}
	}
	head := fmt.Sprintf("%s waits for %s%s that %s has", who, it, atPlace(t), l.name(holder))
	if t.On == blocked.OnGIL && isReady(&t.before) {
		return chain{text: who + " " + does(t), outcome: Waiting, starved: true} // nothing is known of the GIL then
	}
	if t.On == blocked.OnGIL && (!isGILWait(&t.before) || t.before.why.Handovers != t.seen.why.Handovers) {
		return chain{text: who + " " + does(t), outcome: Moving} // it goes round
	}
	if t.On == blocked.OnGIL && holder.Moved != "" && holder.Ran < busy {
		return chain{text: head, outcome: Moving} // it had no processor, or too little of one to give the GIL up
	}
	if t.On == blocked.OnGIL && holder.Moved != "" {
		return chain{
			text: fmt.Sprintf("%s; %s runs code of C with it%s and does not give it up", head, l.name(holder),
				atPlace(holder)),
			outcome: Stuck, length: 1,
		}
	}
	c := g.follow(l, holder, path)
	if c.outcome == Waiting && !c.starved { // nobody waits for input with a lock that others need
		c.outcome = Stuck
	}
	c.text = head + "; " + c.text
	return c
}

// atPipe follows a pipe or a socket to the process at its other end.
func (g *group) atPipe(l *look, t *Thread, path []node) chain {
	v := &t.seen
	writes := isWrite(v.why.Call)
	others := g.pipes.others(v.pipe, l.PID, !writes)
	kind := "pipe"
	if strings.HasPrefix(v.pipe, socketPrefix) {
		kind = "socket"
	}
	what, other := fmt.Sprintf("%s waits in %s%s for data from a %s", l.name(t), v.why.Call, atPlace(t), kind),
		"into which %s can write"
	if writes {
		what, other = fmt.Sprintf("%s waits in %s%s: the %s is full", l.name(t), v.why.Call, atPlace(t), kind),
			"%s can read from it"
	}
	switch {
	// another user's process has it, else the call would return
	case len(others) == 0 && !g.pipes.has(v.pipe, l.PID, !writes):
		return chain{text: fmt.Sprintf("%s %s", l.name(t), does(t)), outcome: Waiting}
	case len(others) == 0 && writes, len(others) == 0 && len(l.Threads) == 1:
		return chain{text: what + ", " + fmt.Sprintf(other, "no other process"), outcome: Stuck}
	case len(others) == 0:
		return chain{text: what + ", " + fmt.Sprintf(other, "no other process"), outcome: Waiting}
	}
	if writes {
		what += fmt.Sprintf(", and %s does not read", processes(others))
	} else {
		what += fmt.Sprintf(" of %s", processes(others))
	}
	c := g.across(others, path, g.peerChain, Moving, Waiting, Stuck)
	if c.text != "" {
		c.text = what + "; " + c.text
	} else {
		c.text = what
	}
	if writes && c.outcome == Waiting && !c.starved {
		c.outcome = Stuck
	}
	return c
}

func processes(pids []int) string {
	var words []string
	for _, pid := range pids[:min(len(pids), 3)] {
		words = append(words, fmt.Sprint(pid))
	}
	if more := len(pids) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	if len(words) == 1 {
		return "process " + words[0]
	}
	return "processes " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// across follows on in other processes. Of their chains it returns the one whose outcome comes first.
func (g *group) across(pids []int, path []node, of func(*look, []node) chain, first ...Outcome) chain {
	best, at := chain{outcome: Waiting}, len(first)
	for _, pid := range pids {
		c := chain{outcome: Waiting} // nothing is known of it
		if l := g.looks[pid]; l != nil && len(l.Threads) > 0 {
			c = of(l, path)
		}
		if i := slices.Index(first, c.outcome); i < at {
			best, at = c, i
		}
	}
	return best
}

// processChain is the chain of a process that others wait for: of its main thread, unless another one goes on.
func (g *group) processChain(l *look, path []node) chain {
	main := &l.Threads[0]
	c := g.follow(l, main, path)
	if c.outcome != Stuck {
		for i := range l.Threads {
			if t := &l.Threads[i]; t.Moved != "" {
				c = chain{text: l.name(t) + " moves" + atPlace(t), outcome: Moving, on: map[node]bool{}}
				break
			}
		}
	}
	if len(path) > 0 && path[len(path)-1].pid != l.PID && c.length > 0 || c.outcome == Moving {
		c.text = l.title() + ": " + c.text
	}
	return c
}

// peerChain is the chain of a process that has the other end of a pipe: if its main thread is stuck, another one may
// write or read. Those that wait for locks wait for its other threads, and where the main thread runs Python, those
// without are of libraries.
func (g *group) peerChain(l *look, path []node) chain {
	c := g.processChain(l, path)
	if c.outcome != Stuck {
		return c
	}
	for i := 1; i < len(l.Threads); i++ {
		t := &l.Threads[i]
		if w := &t.seen.why; w.Call == "futex" && !w.Timed || len(l.Threads[0].Python) > 0 && len(t.Python) == 0 {
			continue
		}
		if other := g.follow(l, t, path); other.outcome == Waiting {
			other.text = l.title() + ": " + other.text
			return other
		}
	}
	return c
}

// atChildren follows children that a thread waits for.
func (g *group) atChildren(l *look, t *Thread, path []node) chain {
	pids := []int{t.seen.argument}
	if t.seen.argument == 0 {
		pids = l.running()
	}
	if len(pids) == 0 { // they ended just now
		return chain{text: fmt.Sprintf("%s %s", l.name(t), does(t)), outcome: Waiting}
	}
	what := fmt.Sprintf("%s waits%s for the end of %s", l.name(t), atPlace(t), processes(pids))
	c := g.across(pids, path, g.processChain, Stuck, Moving, Waiting)
	if c.text != "" {
		what += "; " + c.text
	}
	c.text = what
	return c
}

// allAtLocks is the verdict on a process all of whose threads wait for locks of its own, without a timeout: nobody is
// left who could release one.
func (g *group) allAtLocks(l *look) (v Verdict, ok bool) {
	if l.LeftOut > 0 || !l.isEach(func(t *Thread) bool {
		w := &t.seen.why
		return t.seen.blocked && t.CUDA == nil && t.Moved == "" && t.Woken == 0 && w.Call == "futex" && !w.Timed &&
			!w.Shared && w.On != blocked.OnGIL
	}) {
		return v, false
	}
	if len(l.Threads) == 1 {
		return Verdict{Stuck, fmt.Sprintf("its only thread %s, and nobody is left to release it", does(&l.Threads[0])),
			l.Threads[0].TID}, true
	}
	var words []string
	for i := range l.Threads {
		if t := &l.Threads[i]; len(words) < 4 {
			words = append(words, l.name(t)+" "+does(t))
		}
	}
	text := fmt.Sprintf("all of its %d threads wait for each other (deadlock): %s", len(l.Threads),
		strings.Join(words, "; "))
	return Verdict{Stuck, text, l.Threads[0].TID}, true
}

// gpuWait is the time, in s, after which work that has not ended is one that does not end.
const gpuWait = 2

// atGPU is the verdict on a process whose GPU work does not end: nothing has ended on any stream meanwhile, and its
// main thread has not gone on.
func (l *look) atGPU() (v Verdict, ok bool) {
	if l.Recorded == nil || !l.Recorded.GPU {
		return v, false
	}
	var open *Stream
	for i := range l.Recorded.Streams {
		s := &l.Recorded.Streams[i]
		switch {
		case s.Ended && s.Since < gpuWait:
			return v, false
		case !s.Ended && s.Since >= gpuWait && (open == nil || s.Since > open.Since):
			open = s
		}
	}
	t := &l.Threads[0]
	switch {
	case t.Moved == "Python line" || t.Moved == "system call":
		return v, false
	// CUPTI hands over launches with their work, where nothing else tells of them
	case open == nil && t.CUDA != nil && t.CUDA.Waits && t.CUDA.Since >= gpuWait:
		text := fmt.Sprintf("%s %s, for GPU work that has not ended and is not in the log yet", l.name(t), does(t))
		if l.Recorded.Unrun != "" {
			text += fmt.Sprintf(", perhaps %s: it was looked up last, and has not run", l.Recorded.Unrun)
		}
		return Verdict{Stuck, text, t.TID}, true
	case open == nil:
		return v, false
	}
	text := fmt.Sprintf("%s on %s was launched %.0f s ago and has not ended", open.Work, open.Name, open.Since)
	if open.Queued > 0 {
		text += fmt.Sprintf(", and %s behind it", figures.Count(open.Queued, "launch waits", "launches wait"))
	}
	return Verdict{Stuck, fmt.Sprintf("%s; %s %s", text, l.name(t), does(t)), t.TID}, true
}

// waitingModules are modules of Python whose functions wait for a word of another thread rather than for a lock that it
// has.
var waitingModules = []string{
	"threading.py", "queue.py", "_base.py", "thread.py", "synchronize.py", "connection.py", "queues.py", "selectors.py",
	"base_events.py",
}

// atPythonLock is the verdict on a process whose main thread waits for a lock of Python, which names no owner: one of
// the other threads of Python has it, and none of them goes on.
func (g *group) atPythonLock(l *look) (v Verdict, ok bool) {
	isAtLock := func(t *Thread) bool {
		return len(t.Python) > 0 && t.Moved == "" && t.Woken == 0 && t.On == blocked.OnLock && t.Holder == 0 &&
			!t.seen.why.Timed && !t.seen.why.Shared &&
			!slices.Contains(waitingModules, filepath.Base(t.Python[0].File))
	}
	for i := range l.Threads {
		t := &l.Threads[i]
		if !isAtLock(t) {
			continue
		}
		var words []string
		for j := range l.Threads {
			other := &l.Threads[j]
			switch {
			case i == j || len(other.Python) == 0:
			case other.Moved != "" || other.isStarved():
				return v, false
			default:
				words = append(words, l.name(other)+" "+does(other))
			}
		}
		text := fmt.Sprintf("%s %s", l.name(t), does(t))
		switch {
		case len(words) == 0:
			text += "; no other thread of Python is left to release it"
		case len(words) > 3:
			text += fmt.Sprintf("; one of %d threads has it, and none of them goes on: %s; and others", len(words),
				strings.Join(words[:3], "; "))
		case len(words) > 1:
			text += fmt.Sprintf("; one of %d threads has it, and none of them goes on: %s", len(words),
				strings.Join(words, "; "))
		default:
			text += "; the only other thread of Python does not go on: " + words[0]
		}
		return Verdict{Stuck, text, t.TID}, true
	}
	return v, false
}

// workerGone is the verdict on a process that waits for others, one of which has ended otherwise than by exit code 0.
func (g *group) workerGone(l *look) (v Verdict, ok bool) {
	i := slices.IndexFunc(l.Gone, func(g Gone) bool { return g.bad })
	t := &l.Threads[0]
	if i < 0 || t.Moved != "" || !t.seen.blocked || t.TID != uint32(l.PID) {
		return v, false
	}
	switch t.On {
	case "pipe", "socket", "pipe and socket", blocked.OnLock:
	default:
		return v, false
	}
	gone := &l.Gone[i]
	text := fmt.Sprintf("worker process %d (%s) has ended", gone.PID, gone.Name)
	if gone.How != "" {
		text += " (" + gone.How + ")"
	}
	return Verdict{Stuck, fmt.Sprintf("%s; %s %s", text, l.name(t), does(t)), t.TID}, true
}
