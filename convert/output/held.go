package output

import "io"

// maxHeld is the number of bytes that a Held holds back.
const maxHeld = 1 << 20

// A Held holds back the beginning of what is written to W, until Release or until there is much
// of it.
type Held struct {
	W      io.Writer
	buffer []byte
	passed bool
}

func (h *Held) Write(p []byte) (int, error) {
	if h.passed {
		return h.W.Write(p)
	}
	if h.buffer = append(h.buffer, p...); len(h.buffer) > maxHeld {
		if err := h.Release(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Release writes what is held, and what comes later at once.
func (h *Held) Release() error {
	h.passed = true
	_, err := h.W.Write(h.buffer)
	h.buffer = nil
	return err
}
