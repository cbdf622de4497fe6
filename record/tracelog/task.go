package tracelog

import "sync"

// A task is a piece of the log and what it decodes to. Its buffers are used for one
// piece after another.
type task struct {
	piece
	dec   *decoder
	table *table // of a block of records
	fault error  // what is wrong with its content
	file  []column
	own   []column
	ready chan struct{} // see ahead
}

func newTask() (*task, error) {
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return &task{dec: dec, ready: make(chan struct{}, 1)}, nil
}

// spares are tasks without a use.
type spares struct {
	mu    sync.Mutex
	tasks []*task
}

func (s *spares) put(t *task) {
	s.mu.Lock()
	s.tasks = append(s.tasks, t)
	s.mu.Unlock()
}

// get returns one, or a new one.
func (s *spares) get() *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.tasks); n > 0 {
		t := s.tasks[n-1]
		s.tasks = s.tasks[:n-1]
		return t
	}
	t, err := newTask()
	if err != nil {
		panic(err) // the options of a decoder are constants, and NewReader has made one
	}
	return t
}

// Keep returns the current block in a form that stays valid, on any goroutine, until
// its Release. Whoever hands blocks to goroutines of their own keeps them.
func (r *Reader) Keep() *Block {
	b := r.block
	b.kept, b.spare, b.table = r.task, &r.spare, r.strings.share()
	r.task = nil
	return &b
}

// Release gives the memory of a kept block back for another one. The block must not be
// used any more. A block that is not kept is left alone.
func (b *Block) Release() {
	if b.kept != nil {
		b.spare.put(b.kept)
		*b = Block{}
	}
}

// decode decodes a block of records. It is all of reading that needs nothing but
// the block itself.
func (t *task) decode(only *onlyFields) {
	t.table, t.fault, t.dec.only = nil, nil, only
	if t.end || t.err != nil || t.head.kind != blockRecords {
		return
	}
	t.fault = t.dec.eachTable(t.payload, func(got *table) error {
		if t.table != nil {
			return errTables
		}
		t.table = got
		return nil
	})
}
