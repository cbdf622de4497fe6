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

// ThreadStates are the states of a thread. The UI draws them above its slices, and what a processor ran in a row of the processor.
type ThreadStates struct {
	sequence sequence
	tid      uint32
	name     string
	last     ThreadState
}

// ThreadStates adds the states of a thread.
func (w *Writer) ThreadStates(tid uint32, name string) *ThreadStates {
	return &ThreadStates{sequence: w.newSequence(0), tid: tid, name: name}
}

// prioNormal is the priority of a thread that has asked for no other one.
const prioNormal = 120

// MaxCPUs bounds the numbers of processors. The trace processor does not load a trace that has a larger one.
const MaxCPUs = 4096

// State writes that the thread is in a state from time ts on.
func (s *ThreadStates) State(ts uint64, state ThreadState, cpu uint32) {
	if state == s.last {
		return
	}
	s.last = state
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
