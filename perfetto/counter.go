package perfetto

import "math"

// A Unit is what a counter counts: Bytes, Count, or the text behind its values, "%".
type Unit string

// The units that the UI knows.
const (
	Bytes Unit = "bytes"
	Count Unit = "count"
)

// A Counter shows a number as it changes.
type Counter struct {
	sequence sequence
}

// Value writes the counter's value from time ts on.
func (c *Counter) Value(ts uint64, v int64) {
	c.event(ts, func(b *buffer) { b.uint(eventCounterValue, uint64(v)) })
}

// Fraction writes the counter's value from time ts on, a number with a fraction.
func (c *Counter) Fraction(ts uint64, v float64) {
	c.event(ts, func(b *buffer) { b.fixed(eventCounterDouble, math.Float64bits(v)) })
}

func (c *Counter) event(ts uint64, value func(b *buffer)) {
	b := c.sequence.begin()
	event := b.open(packetTrackEvent)
	b.uint(eventType, typeCounter)
	value(b)
	b.close(event)
	c.sequence.endAt(ts)
}
