package perfetto

// A CounterInfo describes a counter.
type CounterInfo struct {
	TrackInfo
	Unit string // "" for bytes, which the UI shows as KiB, MiB ...
}

// A Counter shows a number as it changes.
type Counter struct {
	seq sequence
}

// Counter returns a new counter.
func (w *Writer) Counter(c CounterInfo) *Counter {
	uuid := w.uuid()
	b, end := w.named(uuid, &c.TrackInfo)
	counter := b.open(descriptorCounter)
	if c.Unit == "" {
		b.uint(counterUnit, unitBytes)
	} else {
		b.text(counterUnitName, c.Unit)
	}
	b.close(counter)
	end()
	return &Counter{w.newSequence(uuid)}
}

// Value writes the counter's value from time ts on.
func (c *Counter) Value(ts uint64, v int64) {
	b := c.seq.begin()
	event := b.open(packetTrackEvent)
	b.uint(eventType, typeCounter)
	b.uint(eventCounterValue, uint64(v))
	b.close(event)
	c.seq.endAt(ts)
}
