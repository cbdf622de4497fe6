package tracelog

import (
	"sync"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
)

// A decoding is a block of the file with the table that it decodes to. Its buffers are used
// for one block after another.
type decoding struct {
	blockfile.Block
	dec   *columns.Decoder
	table *columns.Table // set for a block of records
	fault error          // what is wrong with the block's content

	file []columns.Column // see intake.fill
	own  []columns.Column

	ready chan struct{} // see decodingAhead
}

func newDecoding() (*decoding, error) {
	dec, err := columns.NewDecoder()
	if err != nil {
		return nil, err
	}
	return &decoding{dec: dec, ready: make(chan struct{}, 1)}, nil
}

// decode decodes a block of records. It needs nothing but the block, so that any goroutine
// can do it.
func (d *decoding) decode() {
	d.table, d.fault = nil, nil
	if d.End || d.Err != nil || d.Type != blockfile.Records {
		return
	}
	d.fault = d.dec.EachTable(d.Payload, func(t *columns.Table) error {
		if d.table != nil {
			return columns.ErrTables
		}
		d.table = t
		return nil
	})
	if d.fault == nil && d.table == nil {
		d.fault = columns.ErrTables
	}
}

// spareDecodings are decodings that are not in use.
type spareDecodings struct {
	mu   sync.Mutex
	list []*decoding
}

func (s *spareDecodings) put(d *decoding) {
	s.mu.Lock()
	s.list = append(s.list, d)
	s.mu.Unlock()
}

// get returns a decoding that is not in use, or a new one.
func (s *spareDecodings) get() *decoding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.list); n > 0 {
		d := s.list[n-1]
		s.list = s.list[:n-1]
		return d
	}
	d, err := newDecoding()
	if err != nil {
		panic(err) // the options of a decoder are constants, and NewReader has made one
	}
	return d
}

// Parallel makes a number of goroutines decode blocks ahead, while the caller works on the
// blocks that it has. Blocks still come in the order of the file. It must come before the first
// Next; later it does nothing. At most 2*workers+2 blocks are in memory. The goroutines end at
// the end of the log or with Close, which must be called in any case.
func (r *Reader) Parallel(workers int) {
	if !r.begun && !r.done && workers > 0 {
		r.ahead = &decodingAhead{reader: r, workers: workers, quit: make(chan struct{})}
	}
}

// A decodingAhead is the goroutines that read and decode ahead of a reader.
type decodingAhead struct {
	reader  *Reader
	workers int
	running bool
	quit    chan struct{}
	once    sync.Once
	idle    sync.WaitGroup
	free    chan *decoding // without a block
	read    chan *decoding // with a block that is not decoded
	inOrder chan *decoding // in the order of the file
}

// nextBlock returns the next block in the order of the file, decoded. used is a decoding that is no
// longer needed, or nil.
func (a *decodingAhead) nextBlock(used *decoding) *decoding {
	if !a.running {
		a.start()
	}
	if used == nil {
		used = a.reader.spare.get()
	}
	a.free <- used // there is room for all
	d := <-a.inOrder
	<-d.ready
	return d
}

func (a *decodingAhead) start() {
	a.running = true
	most := 2*a.workers + 2
	a.free = make(chan *decoding, most)
	a.read = make(chan *decoding, most)
	a.inOrder = make(chan *decoding, most)
	for range most - 1 { // take brings the last
		a.free <- a.reader.spare.get()
	}
	a.idle.Go(a.fetch)
	for range a.workers {
		a.idle.Go(a.decode)
	}
}

// fetch reads the blocks one after the other up to the end.
func (a *decodingAhead) fetch() {
	defer close(a.read)
	for {
		var d *decoding
		select {
		case d = <-a.free:
		case <-a.quit:
			return
		}
		a.reader.blocks.Next(&d.Block)
		end := d.End || d.Err != nil
		a.read <- d
		a.inOrder <- d
		if end {
			return
		}
	}
}

func (a *decodingAhead) decode() {
	for d := range a.read {
		d.decode()
		d.ready <- struct{}{}
	}
}

// pause waits for the goroutines, which end with the file. The next take starts them again.
func (a *decodingAhead) pause() {
	a.idle.Wait()
	a.running = false
	for len(a.free) > 0 {
		a.reader.spare.put(<-a.free)
	}
}

// stop ends the goroutines.
func (a *decodingAhead) stop() {
	a.once.Do(func() { close(a.quit) })
	a.idle.Wait()
}
