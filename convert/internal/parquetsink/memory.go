package parquetsink

import "sync"

// A memory has the blocks that no buffer holds, and counts those of the rows that are being encoded. The sink and the
// goroutines that encode use it at the same time.
type memory struct {
	wide   pool[int64]
	small  pool[uint32]
	floats pool[float64]
	orders pool[uint32] // of row groups

	turn    sync.Mutex
	changed sync.Cond
	leaving int // bytes of the rows that are being encoded
}

// leave counts rows that are going to be encoded.
func (m *memory) leave(bytes int) {
	m.turn.Lock()
	m.leaving += bytes
	m.turn.Unlock()
}

// left counts rows of which the memory is free.
func (m *memory) left(bytes int) {
	m.turn.Lock()
	m.leaving -= bytes
	m.turn.Unlock()
	m.changed.Signal()
}

// atMost waits until the rows that are being encoded take at most as many bytes.
func (m *memory) atMost(bytes int) {
	m.turn.Lock()
	for m.leaving > bytes {
		m.changed.Wait()
	}
	m.turn.Unlock()
}
