package perfetto

// A ThreadState is what a thread does, a number of GenericKernelTaskStateEvent.TaskStateEnum.
type ThreadState uint64

// The states.
const (
	ThreadRunnable ThreadState = 2
	ThreadRunning  ThreadState = 3
	ThreadSleeps   ThreadState = 4
	ThreadWaits    ThreadState = 5 // where no signal wakes it up
	ThreadStopped  ThreadState = 6
)

// ThreadStates are the states of a thread. The UI draws them above its slices, and what a processor ran in a row of the
// processor.
type ThreadStates struct {
	sequence sequence
	tid      uint32
	name     string
	last     ThreadState
	at       uint64 // time of the last state, ns
	cpu      uint32 // where the thread ran last
}

// ThreadStates adds the states of a thread.
func (w *Writer) ThreadStates(tid uint32, name string) *ThreadStates {
	return &ThreadStates{sequence: w.newSequence(0), tid: tid, name: name}
}

// prioNormal is the priority of a thread that has asked for no other one.
const prioNormal = 120

// MaxCPUs bounds the numbers of processors. The trace processor does not load a trace that has a larger one.
const MaxCPUs = 4096

// State writes that the thread is in a state from time ts on. The trace processor refuses two states of one time: the
// later one begins a nanosecond later. It ends a thread's slice on a processor only by a state that names that
// processor, so the state after running does, even if the thread had been moved.
func (s *ThreadStates) State(ts uint64, state ThreadState, cpu uint32) {
	if state == s.last {
		return
	}
	if s.last != 0 {
		ts = max(ts, s.at+1)
	}
	switch {
	case state == ThreadRunning:
		s.cpu = cpu
	case s.last == ThreadRunning:
		cpu = s.cpu
	}
	s.last, s.at = state, ts
	b := s.sequence.begin()
	event := b.open(packetTaskState)
	b.uint(taskCPU, uint64(cpu))
	b.text(taskName, s.name)
	b.uint(taskTID, uint64(s.tid))
	b.uint(taskState, uint64(state))
	b.uint(taskPrio, prioNormal)
	b.close(event)
	s.sequence.endAt(ts)
}
