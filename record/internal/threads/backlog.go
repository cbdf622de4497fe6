package threads

import "sync"

// A Backlog does one thing after the other on a goroutine of its own, for those that must not wait.
type Backlog struct {
	mu      sync.Mutex
	todo    []func()
	working bool
	done    sync.WaitGroup
}

// Do has f called after all that were passed before.
func (b *Backlog) Do(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.todo = append(b.todo, f)
	if !b.working {
		b.working = true
		b.done.Go(b.work)
	}
}

func (b *Backlog) work() {
	for {
		b.mu.Lock()
		todo := b.todo
		b.todo = nil
		b.working = len(todo) > 0
		b.mu.Unlock()
		if len(todo) == 0 {
			return
		}
		for _, f := range todo {
			f()
		}
	}
}

// Wait waits until all is done.
func (b *Backlog) Wait() { b.done.Wait() }
