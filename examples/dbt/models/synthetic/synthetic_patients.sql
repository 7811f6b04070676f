-- A synthetic table. The first run charges epsilon 1; the next ones find the release and charge nothing.
SELECT * FROM dp_synthesize('bank.patients', epsilon := 1.0, workload := 'all 2-way')
