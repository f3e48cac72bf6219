package bitcoin

// wireTransaction, wireInput, wireOutput and wireStatus are the transaction
// format of the Esplora API.
type wireTransaction struct {
	ID      string       `json:"txid"`
	Inputs  []wireInput  `json:"vin"`
	Outputs []wireOutput `json:"vout"`
	Status  *wireStatus  `json:"status"`
}

type wireInput struct {
	Transaction string      `json:"txid"`
	Index       *int64      `json:"vout"`
	Prevout     *wireOutput `json:"prevout"`
}

type wireOutput struct {
	Script *string `json:"scriptpubkey"`
	Value  *int64  `json:"value"`
}

type wireStatus struct {
	Confirmed *bool  `json:"confirmed"`
	Height    *int64 `json:"block_height"`
	Block     string `json:"block_hash"`
	Time      *int64 `json:"block_time"`
}

func (w *wireTransaction) read() (transaction, error) {
	if !hash256.MatchString(w.ID) || len(w.Inputs) == 0 || len(w.Outputs) == 0 {
		return transaction{}, errMalformed
	}
	tx := transaction{ID: w.ID, Inputs: make([]input, len(w.Inputs)), Outputs: make([]output, len(w.Outputs))}
	var err error
	for i := range w.Inputs {
		if tx.Inputs[i], err = w.Inputs[i].read(); err != nil {
			return transaction{}, err
		}
	}
	for i := range w.Outputs {
		if tx.Outputs[i], err = w.Outputs[i].read(); err != nil {
			return transaction{}, err
		}
	}
	tx.Status, err = w.Status.read()
	return tx, err
}

func (w *wireInput) read() (input, error) {
	if !hash256.MatchString(w.Transaction) || !within(w.Index, 1<<32-1) {
		return input{}, errMalformed
	}
	in := input{outpoint: outpoint{w.Transaction, uint32(*w.Index)}}
	if w.Prevout == nil {
		return in, nil
	}
	spent, err := w.Prevout.read()
	in.Script = spent.Script
	return in, err
}

func (w *wireOutput) read() (output, error) {
	if w.Script == nil || !validScript(*w.Script) || !within(w.Value, maxSatoshis) {
		return output{}, errMalformed
	}
	return output{*w.Script, *w.Value}, nil
}

// read takes a block for a confirmed transaction only: elsewhere it is noise.
func (w *wireStatus) read() (status, error) {
	if w == nil || w.Confirmed == nil {
		return status{}, errMalformed
	}
	if !*w.Confirmed {
		return status{}, nil
	}
	if !within(w.Height, maxHeight) || !hash256.MatchString(w.Block) || !within(w.Time, maxTime) {
		return status{}, errMalformed
	}
	return status{true, *w.Height, w.Block, *w.Time}, nil
}
