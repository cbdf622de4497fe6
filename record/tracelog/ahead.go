package tracelog

import "sync"

// Parallel makes Next decode blocks ahead on as many goroutines, while the caller
// works on those that it has got; they come in the order of the file, and everything
// else is as without. It must come before the first Next, later it does nothing. At
// most 2*workers+2 blocks are in memory. The goroutines end with the log or with
// Close, which must be called in any case.
func (r *Reader) Parallel(workers int) {
	if !r.begun && !r.done && workers > 0 {
		r.ahead = &ahead{reader: r, workers: workers, quit: make(chan struct{})}
	}
}

// An ahead is the goroutines that read and decode ahead of a reader.
type ahead struct {
	reader  *Reader
	workers int
	started bool
	quit    chan struct{}
	once    sync.Once
	idle    sync.WaitGroup
	free    chan *task // without a piece
	work    chan *task // with one that is not decoded
	order   chan *task // in the order of the file
}

// take returns the next task in the order of the file, decoded, for one whose
// block is not used any more.
func (a *ahead) take(used *task) *task {
	if !a.started {
		a.start()
	}
	if used == nil {
		used = a.reader.spare.get()
	}
	a.free <- used // there is room for all
	t := <-a.order
	<-t.ready
	return t
}

func (a *ahead) start() {
	a.started = true
	tasks := 2*a.workers + 2
	a.free = make(chan *task, tasks)
	a.work = make(chan *task, tasks)
	a.order = make(chan *task, tasks)
	for range tasks - 1 { // take brings the last
		a.free <- a.reader.spare.get()
	}
	a.idle.Go(a.fetch)
	for range a.workers {
		a.idle.Go(a.decode)
	}
}

// fetch reads the pieces one after the other up to the end.
func (a *ahead) fetch() {
	defer close(a.work)
	for {
		var t *task
		select {
		case t = <-a.free:
		case <-a.quit:
			return
		}
		a.reader.feed.next(&t.piece)
		end := t.end || t.err != nil
		a.work <- t
		a.order <- t
		if end {
			return
		}
	}
}

func (a *ahead) decode() {
	for t := range a.work {
		t.decode(a.reader.only)
		t.ready <- struct{}{}
	}
}

// stop ends the goroutines.
func (a *ahead) stop() {
	a.once.Do(func() { close(a.quit) })
	a.idle.Wait()
}
