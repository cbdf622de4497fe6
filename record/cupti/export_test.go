package cupti

// FlushAll asks every process to send what CUPTI has finished; it does not wait.
func (s *Server) FlushAll() {
	s.each(func(p *peer) { p.tell(msgFlush) })
}
