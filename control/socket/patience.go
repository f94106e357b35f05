package socket

import (
	"net/http"
	"time"
)

// patience is how long a client may take nothing of an answer: a pager is read slowly, and
// whoever is stopped for longer would keep the whole list in the router's memory. Content
// is exempt, of which there is never more than a piece.
const patience = time.Minute

// pieceSize is how much of an answer a client is given that time for, in bytes.
const pieceSize = 64 << 10

// impatient takes an answer to a client until that stalls.
type impatient struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (w *impatient) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		if err = w.control.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
			break
		}
		var n int
		n, err = w.ResponseWriter.Write(p[written:min(len(p), written+pieceSize)])
		written += n
	}
	return written, err
}
