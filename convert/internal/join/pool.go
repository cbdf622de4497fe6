package join

// A pool has unused values.
type pool[T any] struct{ free []*T }

// get returns a value. It may have any content.
func (p *pool[T]) get() *T {
	n := len(p.free)
	if n == 0 {
		return new(T)
	}
	v := p.free[n-1]
	p.free = p.free[:n-1]
	return v
}

func (p *pool[T]) put(v *T) { p.free = append(p.free, v) }
