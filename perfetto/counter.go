package perfetto

// A Counter shows an amount in bytes as it changes.
type Counter struct {
	sequence sequence
}

// Value writes the counter's value from time ts on.
func (c *Counter) Value(ts uint64, v int64) {
	b := c.sequence.begin()
	event := b.open(packetTrackEvent)
	b.uint(eventType, typeCounter)
	b.uint(eventCounterValue, uint64(v))
	b.close(event)
	c.sequence.endAt(ts)
}
