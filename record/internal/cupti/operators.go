package cupti

import (
	"maps"
	"slices"
	"sync"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The Go side of PyTorch's operators. inject/torch.c sends stacks of them, each once, with numbers of the process; here
// they become records of the log.

// Torch is PyTorch in a process: the addresses of the functions by which its operators are seen.
type Torch struct {
	Add, Disable, Reenable, Name, Thread, Peek uint64
	steps                                      uint64 // is there since observers are plain functions (1.13)

	Spans bool // each operator has a record of its begin and end
}

// torchSymbols are the names under which libtorch exports these functions.
var torchSymbols = map[string]func(*Torch) *uint64{
	"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE": func(t *Torch) *uint64 { return &t.Add },
	"_ZN2at15disableCallbackEm":                              func(t *Torch) *uint64 { return &t.Disable },
	"_ZN2at16reenableCallbackEm":                             func(t *Torch) *uint64 { return &t.Reenable },
	"_ZNK2at14RecordFunction4nameEv":                         func(t *Torch) *uint64 { return &t.Name },
	"_ZN2at14RecordFunction15currentThreadIdEv":              func(t *Torch) *uint64 { return &t.Thread },
	"_ZN2at15sequence_number4peekEv":                         func(t *Torch) *uint64 { return &t.Peek },
	"_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE":  func(t *Torch) *uint64 { return &t.steps },
}

// TorchNames lists the names of the functions that [TorchAt] looks for.
func TorchNames() []string { return slices.Collect(maps.Keys(torchSymbols)) }

// TorchAt returns PyTorch's functions by their addresses, 0 for a name that is not there. It returns nil if one is missing
// without which operators cannot be seen.
func TorchAt(address func(name string) uint64) *Torch {
	t := &Torch{}
	for name, member := range torchSymbols {
		*member(t) = address(name)
	}
	if t.Add == 0 || t.Disable == 0 || t.Reenable == 0 || t.Name == 0 || t.Peek == 0 || t.steps == 0 {
		return nil
	}
	return t
}

// appendTorch encodes a struct ct_torch.
func appendTorch(t *Torch, on bool) []byte {
	b := make([]byte, torchSize)
	for at, address := range map[int]uint64{
		torchAddAt: t.Add, torchDisableAt: t.Disable, torchReenableAt: t.Reenable, torchNameAt: t.Name,
		torchThreadAt: t.Thread, torchPeekAt: t.Peek,
	} {
		le.PutUint64(b[at:], address)
	}
	switch {
	case on && t.Spans:
		le.PutUint32(b[torchOnAt:], torchOn|torchSpans)
	case on:
		le.PutUint32(b[torchOnAt:], torchOn)
	}
	return b
}

// An operatorTable holds the stacks of operators of a process: IDs of the log, or noRoom.
type operatorTable struct {
	log    *OperatorLog
	stacks map[uint32]uint32
	taken  int // bytes of memory
}

// add adds a stack. Stacks for which there is no room are 0.
func (t *operatorTable) add(m *peerMemory, sink Sink, b []byte) error {
	if len(b) < operatorSize {
		return malformed("an operator in %d bytes", len(b))
	}
	id, parent, forward := le.Uint32(b[operatorIdAt:]), le.Uint32(b[operatorParentAt:]), le.Uint32(b[operatorForwardAt:])
	scope, length := le.Uint16(b[operatorScopeAt:]), int(le.Uint16(b[operatorLengthAt:]))
	if _, again := t.stacks[id]; t.log == nil || id == 0 || id >= operatorStacksMax || again {
		return malformed("operator stack number %d, out of range or sent before", id)
	}
	if length > operatorNameMax || length > len(b)-operatorSize {
		return malformed("an operator with a name of %d bytes in %d", length, len(b))
	}
	if t.stacks == nil {
		t.stacks = map[uint32]uint32{}
	}
	if !m.reserve(stackCost) {
		return nil // calls have none, and neither have stacks with this one
	}
	t.taken += stackCost
	above, known := t.stacks[parent]
	if parent != 0 && !known || above == noRoom {
		t.stacks[id] = noRoom
		return nil
	}
	made := t.stacks[forward]
	if made == noRoom {
		made = 0
	}
	t.stacks[id] = t.log.stack(sink, tracelog.OperatorStack{Parent: above, Name: string(b[operatorSize : operatorSize+length]),
		Scope: uint32(scope), Forward: made})
	return nil
}

// stack returns the log's ID of a stack, 0 for one without; stack 0 has none.
func (t *operatorTable) stack(number uint32) (uint32, error) {
	id, known := t.stacks[number]
	switch {
	case number != 0 && !known && (number >= operatorStacksMax || t.log == nil):
		return 0, malformed("operator stack number %d, which was never sent", number)
	case id == noRoom:
		return 0, nil
	}
	return id, nil
}

// release gives the memory back.
func (t *operatorTable) release(m *peerMemory) { m.give(t.taken) }

// An OperatorLog gives stacks of operators of all processes their IDs in the log, and adds the records.
type OperatorLog struct {
	mu     sync.Mutex
	stacks map[tracelog.OperatorStack]uint32 // with ID 0
}

// stack returns the ID of a stack, noRoom without room. Its record has been added when it returns.
func (l *OperatorLog) stack(sink Sink, s tracelog.OperatorStack) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, known := l.stacks[s]; known {
		return id
	}
	if len(l.stacks) >= pythonStacksMost {
		return noRoom
	}
	if l.stacks == nil {
		l.stacks = map[tracelog.OperatorStack]uint32{}
	}
	id := uint32(len(l.stacks)) + 1
	l.stacks[s] = id
	s.ID = id
	sink.Add(&s)
	return id
}

// Calls is the number of API records that have come from a process.
func (s *Server) Calls(pid uint32) (calls uint64) {
	s.peers.each(func(p *peer) {
		if p.known.Load() == pid {
			calls = p.decoder.calls.Load()
		}
	})
	return calls
}

// SetTorch names PyTorch's functions in a process with GoConfig.Torch, and says whether its operators are recorded from
// now on.
func (s *Server) SetTorch(pid uint32, t *Torch, on bool) {
	s.peers.each(func(p *peer) {
		if p.known.Load() == pid {
			p.tell(msgTorch, appendTorch(t, on))
		}
	})
}
