# shellcheck shell=sh disable=SC2154,SC2086
# More of finetune, and generate on its results: forms of data, templates, adapters, and runs that end otherwise. tests/examples/check runs it
# behind finetune.sh, with its functions and in its folder.
cd tuned || exit 1
generates() { # generates PATTERN FOLDER...: the text has the pattern
    pattern=$1; shift
    "$bin/generate" "$@" > out 2> err || wrong "generate $* fails"
    grep -q -e "$pattern" out || wrong "generate $* does not say '$pattern'"
}

# the folder says what its chats are and where an answer ends
generates '^fox 22$' full --chat --prompt 'the 2' --tokens 12
python3 - << 'END' || wrong "finetune --template --full: the folder's files"
import json
config, tokens = json.load(open("full/config.json")), json.load(open("full/tokenizer_config.json"))
end = next(t["id"] for t in json.load(open("full/tokenizer.json"))["added_tokens"] if t["content"] == "<|im_end|>")
assert tokens["eos_token"] == "<|im_end|>" and "<|im_start|>" in tokens["chat_template"], tokens
assert config["eos_token_id"] == [end, 0], config
END
printf '{"eos_token_id": 0, "max_new_tokens": 40}' > lm/generation_config.json
python3 -c 'import json; print(json.load(open("full/tokenizer_config.json"))["chat_template"])' > chatml.jinja # with a line end behind it
expect 0 'Saved the model' "$finetune" lm --data chats.jsonl --template chatml.jinja --length 128 --merge --out by_file --steps 1
grep -q '"eos_token_id": \[[0-9]*, 0\]' by_file/generation_config.json && grep -q chat_template by_file/tokenizer_config.json || wrong "finetune --template FILE --merge: the folder's files"
rm lm/generation_config.json
expect 0 'Saved the model' "$finetune" lm --data prose --template chatml --full --out no_chats --steps 1
grep -qs chat_template no_chats/tokenizer_config.json && wrong "finetune saves a template of which it has learned nothing"
printf '{{ messages[0] }}' > odd.jinja
expect 2 '[-][-]template odd.jinja: this template is none of those that are known' "$finetune" lm --data chats.jsonl --template odd.jinja --out never
expect 2 "[-][-]template is chatml, llama3, gemma, zephyr, phi3 or a file, not 'chatmi'" "$finetune" lm --data chats.jsonl --template chatmi --out never
expect 2 "[-][-]template is chatml, .* not 'chatmi'" "$bin/generate" full --chat --template chatmi --prompt a

# a folder of adapters opens the model that it names: as it is written, beside it, or --base
expect 0 'Saved the adapters as first' "$finetune" lm --data chats.jsonl --template chatml --length 128 --steps 200 --lr 0.01 --out first
mkdir at; mv first at/first
generates '^fox' at/first --chat --prompt 'the 3'
generates '^fox' at/first --chat --prompt 'the 3' --base lm
mkdir elsewhere; cp -r at/first elsewhere/first; cp -r lm elsewhere/lm
(cd elsewhere && mkdir in && cd in && generates '^fox' ../first --chat --prompt 'the 3') || wrong "generate: a model beside its adapters"
sed -i 's|"base_model_name_or_path": "[^"]*"|"base_model_name_or_path": "some/where/lm/"|' elsewhere/first/adapter_config.json
generates '^fox' elsewhere/first/ --chat --prompt 'the 3'
sed -i 's|"base_model_name_or_path": "[^"]*"|"base_model_name_or_path": "some/thing"|' elsewhere/first/adapter_config.json
expect 2 'elsewhere/first has adapters for the model some/thing, which is no folder .*--base FOLDER' "$bin/generate" elsewhere/first --prompt a
sed -i 's|"base_model_name_or_path": "[^"]*"|"base_model_name_or_path": ""|' elsewhere/first/adapter_config.json
expect 2 'elsewhere/first has adapters and does not name their model: --base FOLDER' "$bin/generate" elsewhere/first --prompt a
expect 2 '[-][-]base is for adapters, and lm has none' "$bin/generate" lm --base lm --prompt a
expect 2 'has adapters, and no whole model' "$finetune" at/first --data prose --out never

# the same six conversations in other files and forms
python3 - << 'END'
import json
lines = [json.loads(line) for line in open("chats.jsonl")]
def write(name, rows, array=False):
    with open(name, "w") as file:
        file.write(json.dumps(rows, indent=1) if array else "".join(json.dumps(row) + "\n" for row in rows))
write("array.json", lines, True); write("array_of_no_name", lines, True); write("lines.ndjson", lines); write("LINES.JSONL", lines); write("lines", lines)
parts = [{"messages": [{**m, "content": [{"type": "text", "text": m["content"][:2]}, {"type": "text", "text": m["content"][2:]}]} for m in line["messages"]]} for line in lines]
write("parts.jsonl", parts)
write("alpaca.jsonl", [{"instruction": line["messages"][0]["content"], "output": line["messages"][1]["content"]} for line in lines])
write("completions.jsonl", [{"prompt": line["messages"][:1], "completion": line["messages"][1:]} for line in lines])
write("weights.jsonl", [{"messages": [{**m, "weight": int(i > 0)} for m in line["messages"]]} for i, line in enumerate(lines)])
for name, message in {"reasoning": {"reasoning_content": "so"}, "calls": {"tool_calls": [{"type": "function"}]}, "named": {"name": "x"},
                      "heavy": {"weight": 2}, "trained": {"train": "yes"}}.items():
    write(name + ".jsonl", [lines[0], {"messages": [lines[1]["messages"][0], {**lines[1]["messages"][1], **message}]}])
write("image.jsonl", [{"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}, lines[0]["messages"][1]]}])
write("tools.jsonl", [{**lines[0], "tools": [{"type": "function"}]}])
write("preferences.jsonl", [{"prompt": "a", "chosen": "b", "rejected": "c"}])
write("texts.jsonl", [{"text": "<|im_start|>user\nthe 1<|im_end|>\n<|im_start|>assistant\nfox 11<|im_end|>\n"}])
open("texts.txt", "w").write("<|im_start|>user\nthe 1<|im_end|>\n<|im_start|>assistant\nfox 11<|im_end|>\n")
END
for data in array.json array_of_no_name lines.ndjson LINES.JSONL lines parts.jsonl alpaca.jsonl completions.jsonl; do
    expect 0 "^$data: 6 documents, 168 tokens, of which the loss counts 36; 2 rows of 128" "$finetune" $chats --data $data --out form --steps 1
    rm -rf form
done
expect 0 '^weights.jsonl: 6 documents, 140 tokens, of which the loss counts 30;' "$finetune" $chats --data weights.jsonl --out form --steps 1 # the first answer is not learned
grep -q '^1 document is left out, as the loss would count none of the tokens$' out || wrong "finetune: a document without targets is not said"
rm -r form
for refused in 'reasoning.jsonl:2: message 1: it has "reasoning_content"' 'calls.jsonl:2: message 1: it has "tool_calls"' 'named.jsonl:2: message 1: it has "name"' \
    'heavy.jsonl:2: byte [0-9]*: the "weight"' 'trained.jsonl:2: byte [0-9]*: the "train"' 'image.jsonl:1: message 0: a part of the content' 'tools.jsonl:1: it has "tools"' \
    'preferences.jsonl:1: byte [0-9]*: "chosen" and "rejected"'; do
    refuses "^finetune: $refused" "$finetune" $chats --data "${refused%%:*}"
done

# special tokens of texts are tokens: in JSON, in files, in prompts; --plain reads characters
for data in texts.jsonl texts.txt; do
    expect 0 "^$data: 1 document, 29 tokens" "$finetune" lm --data $data --out form --steps 1; rm -r form
    expect 0 "^$data: 1 document, 6[89] tokens" "$finetune" lm --data $data --plain --out form --steps 1; rm -r form
done
"$bin/generate" lm --prompt '<|im_end|>' --tokens 1 > out 2> err; grep -q 'behind a prompt of 1,' err || wrong "generate: a token in the prompt"
"$bin/generate" lm --prompt '<|im_end|>' --plain --tokens 1 > out 2> err; grep -q 'behind a prompt of 10,' err || wrong "generate --plain"
expect 0 '^29 tokens\|^28 tokens' "$bin/tokenize" --tokenizer lm --show texts.txt
expect 0 '^6[89] tokens' "$bin/tokenize" --tokenizer lm --plain --show texts.txt
expect 0 '^ids: 68 ids' "$bin/tokenize" --tokenizer lm --plain --end '' --out ids texts.txt
expect 0 '^ids: 28 ids' "$bin/tokenize" --tokenizer lm --end '' --out ids texts.txt

# what a file is, if there is doubt, and separators
printf '{"text": "fox"}\n' > fox
expect 0 '^fox: 1 document, [2-9] tokens' "$finetune" lm --data fox --out form --steps 1; rm -r form
expect 0 '^fox: 1 document, 1[0-9] tokens' "$finetune" lm --data fox --format text --out form --steps 1; rm -r form
printf '[fox] the dog' > bracket
expect 0 '^bracket: 1 document' "$finetune" lm --data bracket --out form --steps 1; rm -r form
refuses 'bracket:1: ' "$finetune" lm --data bracket --format json
cp prose named.JsonL; refuses 'named.JsonL:1: byte 0: a value is expected' "$finetune" lm --data named.JsonL # and not a plain text
printf 'fox\n---\ndog\n' > divided
expect 0 '^divided: 2 documents' "$finetune" lm --data divided --separator '---' --out form --steps 1; rm -r form
expect 0 '^The separator stands at 1 place$' "$bin/tokenize" --tokenizer lm --separator '---' --out ids divided
refuses "the separator '---.n' does not stand in divided (a backslash" "$finetune" lm --data divided --separator '---\n'
refuses "[-][-]separator is about plain text, and chats.jsonl" "$finetune" $chats --separator x
expect 2 "the separator '+++' does not stand in divided" "$bin/tokenize" --tokenizer lm --separator +++ --out ids divided
expect 2 'latin is no text in UTF-8: byte 3 is ill-formed' "$bin/tokenize" --tokenizer lm --out ids latin
expect 2 'latin is no text in UTF-8: byte 3 is ill-formed' "$bin/tokenize" --train 262 --out t.json latin
expect 2 'latin is no text in UTF-8: byte 3 is ill-formed' "$char_lm" $small --tokenizer lm --save t latin
"$bin/tokenize" --tokenizer lm --end '' --out a prose > out && "$bin/tokenize" --tokenizer lm --end '' --out b marked > out && cmp -s a b || wrong "tokenize: a byte order mark is a token"

# a run that is interrupted ends as a shell says, and writes nothing under the final name unless asked
for signal in INT:130 TERM:143; do
    for keep in '' --keep-partial; do
        rm -rf out part
        "$finetune" $chats --steps 1000000 --out part $keep > out 2> err &
        tries=0; until grep -qs '^step' out || [ $tries = 300 ]; do sleep 0.1; tries=$((tries + 1)); done
        kill -s ${signal%:*} $!; wait $!; got=$?
        [ $got = ${signal#*:} ] || wrong "finetune ended with $got on $signal"
        if [ -n "$keep" ]; then grep -q '^Interrupted: saved the adapters as part$' out && [ -e part/adapter_model.safetensors ] || wrong "finetune --keep-partial"
        else grep -q '^Interrupted after step [0-9]*: nothing is saved' out && [ ! -e part ] || wrong "finetune: an interrupted run looks finished"; fi
    done
done
rm -rf part part.unfinished

# done: the same command again says so, if the folder has this run's files
again="$chats --steps 3 --checkpoint done_c --out done"
expect 0 'Saved the adapters as done' "$finetune" $again
expect 0 '^Done already: the adapters are saved as done$' "$finetune" $again
[ "$(ls -d done*)" = "$(printf 'done\ndone_c')" ] || wrong "finetune leaves something behind"
printf x >> done/adapter_model.safetensors
expect 2 'done is there already, and is not the result of this run' "$finetune" $again
mkdir other; expect 2 'other is there already, and is not the result of this run\|is not empty' "$finetune" $chats --steps 3 --checkpoint done_c --out other
rm done_c/step-00000003.safetensors
expect 2 'done is there already: --out names a folder that will be made' "$finetune" $again
expect 2 'done is there already: --out names a folder that will be made' "$finetune" $chats --steps 3 --checkpoint done_d --out done

# a training that makes the model worse is no success
bad="$chats --steps 20 --lr 10 --clip 0 --warmup 0 --full"
expect 1 'the loss over rows of the data is [0-9.naif-]* after the training and was 5\.[0-9]* before it: the model is worse\|is no number' "$finetune" $bad --out bad
[ -e bad ] && wrong "finetune saves a model that it has spoiled"
expect 1 'the loss over the validation is [0-9.]* after the training and was 5\.[0-9]* before' "$finetune" $chats --steps 3 --lr 1 --clip 0 --full --hold-out 0.2 --out worse
[ -e worse.worse/model.safetensors ] && [ ! -e worse ] || wrong "finetune: a worse model and its name"
"$finetune" $chats --steps 3 --lr 1 --clip 0 --full --hold-out 0.2 --out worse --allow-worse > out 2> err || wrong "finetune --allow-worse fails"
grep -q '^Saved the model as worse$' out && grep -q 'the model is worse' err || wrong "finetune --allow-worse"
cd ..

# a path of which the system cannot say whether something is there
ln -s round round
expect 1 '^finetune: cannot look for round/out: ' "$finetune" lm --data prose --out round/out --steps 1
