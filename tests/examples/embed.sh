# shellcheck shell=sh disable=SC2154,SC2086
# embed, as tests/examples/check runs it: in the folder of finetune's tests, with the model `lm` there.
embed=$bin/embed
cat > npy.py << 'END'
"""The shape of a NumPy file of float32, then its rows."""
import ast, struct, sys
data = open(sys.argv[1], "rb").read()
size, = struct.unpack("<H", data[8:10])
head = ast.literal_eval(data[10:10 + size].decode())
(rows, dim), kind = head["shape"], head["descr"]
assert data[:8] == b"\x93NUMPY\x01\x00" and (10 + size) % 64 == 0 and data[9 + size] == 10
assert kind in ("<f4", ">f4") and not head["fortran_order"] and len(data) == 10 + size + 4 * rows * dim
print(rows, dim)
for i in range(rows):
    print(*["%.4f" % x for x in struct.unpack_from("%s%df" % (kind[0], dim), data, 10 + size + 4 * dim * i)])
END
cp -r lm st && mkdir st/1_Pooling
echo '[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
       {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]' > st/modules.json
echo '{"pooling_mode": "mean"}' > st/1_Pooling/config.json
echo '{"prompts": {"query": "quick ", "document": "dog "}, "default_prompt_name": null}' > st/config_sentence_transformers.json
printf 'the quick brown fox\n  jumps over \r\nthe lazy dog\nthe lazy dog\nthe dog over the lazy fox, the brown dog and the quick fox\nover' > lines
expect 0 '^lines.npy: 6 vectors of 32 numbers, ' "$embed" st lines
python3 npy.py lines.npy > rows || wrong "embed: no NumPy file"
[ "$(sed -n 4p rows)" = "$(sed -n 5p rows)" ] && [ "$(sort -u rows | wc -l)" = 6 ] || wrong "embed: other vectors"
awk 'NR == 1 {exit !($0 == "6 32")} {s = 0; for (i = 1; i <= NF; i++) s += $i * $i; if (s < 0.999 || s > 1.001) exit 1}' rows || wrong "embed: lengths"
# any size of the batches has the same vectors but for rounding, and the objects of a .jsonl file those of their texts; white space around a text counts
# for nothing
for n in 1 2 6; do
    expect 0 'vectors' "$embed" st lines --batch $n --out other.npy
    python3 npy.py other.npy > other_rows; cmp -s rows other_rows || wrong "embed --batch $n: other vectors"
done
printf '{"text": "the quick brown fox\\n"}\n{"text": "jumps over"}\n' > objects.jsonl
expect 0 '^objects.jsonl.npy: 2 vectors of 32 ' "$embed" st objects.jsonl
[ "$(python3 npy.py objects.jsonl.npy | tail -n 2)" = "$(sed -n 2,3p rows)" ] || wrong "embed: a .jsonl file"
# the first numbers, of length 1 again
expect 0 '^dims.npy: 6 vectors of 5 ' "$embed" st lines --dims 5 --out dims.npy
python3 npy.py dims.npy | awk 'NR > 1 {s = 0; for (i = 1; i <= NF; i++) s += $i * $i; if (s < 0.999 || s > 1.001) exit 1}' || wrong "embed --dims: lengths"
# prompts: of a name, or the folder's default
printf 'dog over' > dog; printf 'over' > over
expect 0 'vector' "$embed" st dog --out a.npy; expect 0 'vector' "$embed" st over --prompt document --out b.npy
cmp -s a.npy b.npy || wrong "embed --prompt"
sed 's/null/"document"/' st/config_sentence_transformers.json > usual && mv usual st/config_sentence_transformers.json
expect 0 'vector' "$embed" st over --out c.npy; cmp -s a.npy c.npy || wrong "embed: the folder's default prompt"
expect 0 'vector' "$embed" st dog --prompt '' --out d.npy; cmp -s a.npy d.npy || wrong "embed: no prompt"
# a search: the nearest lines first, and nothing is written
rm lines.npy
expect 0 '^1\.0000	3	the lazy dog$' "$embed" st lines --search 'the lazy dog' --prompt '' --query-prompt '' --top 2
[ "$(cut -f 1,2 out | tr '\t\n' '  ')" = '1.0000 3 1.0000 4 ' ] && [ ! -e lines.npy ] || wrong "embed --search"
expect 0 '' "$embed" st lines --search 'over'
sort -s -c -r -n -k 1,1 out 2> err && [ "$(wc -l < out)" = 5 ] || wrong "embed --search: the order"
# what is refused
expect 2 'a folder of a model and a file of texts' "$embed" st
expect 2 'the folder has no prompt "other"' "$embed" st lines --prompt other
expect 2 'a vector has 32' "$embed" st lines --dims 33
expect 2 'is empty' "$embed" st /dev/null --out x.npy
expect 2 'line 1 has no "text"' sh -c "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}' > no.jsonl; '$embed' st no.jsonl"
expect 2 'nothing.txt: No such file' "$embed" st nothing.txt
expect 2 'cannot write' "$embed" st lines --out there/x.npy
echo '{"pooling_mode": "median"}' > st/1_Pooling/config.json
expect 2 '1_Pooling/config.json: "pooling_mode" is "median"' "$embed" st lines
[ -e there ] || [ -e lines.npy ] && wrong "embed writes in spite of an error"
rm -r st
