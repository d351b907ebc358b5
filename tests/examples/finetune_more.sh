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
printf '{{ messages[0' > odd.jinja
expect 2 'line 1, column .* of the chat template: .*([-][-]template)' "$finetune" lm --data chats.jsonl --template odd.jinja --out never
expect 2 '[-][-]template chatmi is no file, and there is no template "chatmi", only chatml, llama3, gemma, zephyr' "$finetune" lm --data chats.jsonl --template chatmi --out never
expect 2 'no template "chatmi", only default, chatml' "$bin/generate" full --chat --template chatmi --prompt a

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
write("preferences.jsonl", [{"prompt": "the 1", "chosen": " fox 11", "rejected": " dog"}, {"chosen": lines[0]["messages"], "rejected": [*lines[0]["messages"][:1], lines[1]["messages"][1]]}])
write("half.jsonl", [lines[0]])
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
for refused in 'heavy.jsonl:2: byte [0-9]*: the "weight"' 'trained.jsonl:2: byte [0-9]*: the "train"' 'image.jsonl:1: ' 'preferences.jsonl:1: '; do
    refuses "^finetune: $refused" "$finetune" $chats --data "${refused%%:*}"
done

# preferences: pairs of rows, which a line without two answers is not
for method in dpo orpo; do
    expect 0 '^step 2/2  loss [0-9.]*  margin [-0-9.]*  accuracy [01].[0-9]*' "$finetune" $chats --data preferences.jsonl --method $method --out form --steps 2
    rm -rf form
done
refuses '^finetune: half.jsonl:1: no "chosen" and "rejected", of which --method learns' "$finetune" $chats --data half.jsonl --method dpo
refuses '^finetune: texts.txt: --method needs lines of JSON' "$finetune" $chats --data texts.txt --method orpo
refuses '^finetune: --beta is about --method dpo or orpo' "$finetune" $chats --data half.jsonl --beta 0.2
refuses '^finetune: --task has labels, and --method pairs' "$finetune" lm --data half.jsonl --task classify --method dpo
refuses '^finetune: --label-smoothing is about --method dpo' "$finetune" $chats --data preferences.jsonl --method orpo --label-smoothing 0.1

# what a template does not read is said before the training, and also what is plain text, and turns that are written otherwise later
for unread in 'reasoning.jsonl reasoning_content of 1 message is' 'calls.jsonl tool_calls of 1 message is' 'named.jsonl name of 1 message is' 'tools.jsonl tools of 1 conversation are'; do
    expect 0 "^  ${unread#* } not used by this template$" "$finetune" $chats --data "${unread%% *}" --out form --steps 1; rm -r form
done
expect 0 'documents, ' "$finetune" $chats --data weights.jsonl --out form --steps 1; rm -r form
grep -q 'not used' out && wrong "finetune: a weight is no member that a template reads"
cat > cut.jinja << 'END'
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content if loop.last else m.content.split('</think>') | last }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
END
python3 - << 'END'
import json
talk = [{"role": "user", "content": "the 1"}, {"role": "assistant", "content": "<think>a</think>fox"}, {"role": "user", "content": "the 2"},
        {"role": "assistant", "content": "<think>b</think>dog <|im_end|>"}]
open("think.jsonl", "w").write(json.dumps({"messages": talk}) + "\n" + json.dumps({"messages": talk[:2]}) + "\n")
END
thinks="lm --data think.jsonl --template cut.jinja --length 128 --steps 1"
expect 0 '^think.jsonl: 3 documents, ' "$finetune" $thinks --out form
for said in '^  1 special token is spelled in what assistants say, such as <|im_end|> in line 1: learned as plain text (--parse-special' \
    '^  1 conversation has turns that later messages rewrite (1): 2 rows, '; do grep -q -e "$said" out || wrong "finetune does not say '$said'"; done
counted=$(sed -n 's/.*the loss counts \([0-9]*\);.*/\1/p' out); rm -r form
expect 0 'documents, ' "$finetune" $thinks --out form --parse-special; rm -r form
grep -q 'spelled' out && wrong "finetune --parse-special: a token is said to be text"
[ "$(sed -n 's/.*the loss counts \([0-9]*\);.*/\1/p' out)" = $((counted - 9)) ] || wrong "finetune --parse-special: a token of 10 characters"

# the date and the variables of a template; a run that goes on has the date with which it began
printf '{%% for m in messages %%}{{ m.content }}<|im_end|>{%% endfor %%}{{ strftime_now("%%Y-%%m-%%d") }} {{ x }}' > date.jinja
dated="lm --data chats.jsonl --template date.jinja --length 128 --steps 2"
expect 2 'is a date such as 2026-01-31 .* not .2026-02-30.$' "$finetune" $dated --date 2026-02-30 --out never
expect 2 'variables: .*([-][-]variables)$' "$finetune" $dated --variables '{"x":' --out never
expect 0 'Saved' "$finetune" $dated --date 2020-02-29 --variables '{"x": 7}' --out form --checkpoint dated; rm -r form
expect 2 'is of a run with [-][-]date 2020-02-29, not none' "$finetune" $dated --variables '{"x": 7}' --out form --checkpoint dated
expect 2 'is of a run with [-][-]variables {"x": 7}, not none' "$finetune" $dated --date 2020-02-29 --out form --checkpoint dated; rm -r dated
printf '{%% for m in messages %%}{{ m.content }}<|im_end|>{%% endfor %%}{{ strftime_now("%%H:%%M:%%S") }}' > date.jinja
expect 0 'Saved' "$finetune" $dated --out form --checkpoint dated; rm -r form; sleep 1.1
expect 0 'Saved' "$finetune" $dated --out form --checkpoint dated; rm -r form dated
echo '[' > cut.json
expect 2 'tools: .*([-][-]tools)$' "$bin/generate" full --chat --tools cut.json --prompt a
expect 2 '[-][-]tools is for a chat: [-][-]chat is needed' "$bin/generate" full --tools cut.json --prompt a

# a conversation on one cache answers as prompts of their own do; a prompt from a file or a pipe
talks() { # talks PATTERN INPUT ARGUMENTS...: the answers, with | for line ends
    pattern=$1 input=$2; shift 2
    printf "$input" | "$bin/generate" "$@" > out 2> err || wrong "generate $* fails"
    [ "$(tr '\n' '|' < out)" = "$pattern" ] || wrong "generate $* does not answer '$pattern'"
}
talks 'fox 22|' 'the 2\n' full --chat --tokens 12
talks 'fox 22|fox 44|' 'the 2\r\n\n/reset\nthe 4' full --chat --tokens 12
grep -q '^2 answers of 12 tokens' err || wrong "generate: the answers of a conversation are not counted"
talks 'fox 55|' 'the 5\n' full --chat --tokens 12 --prompt-file -
printf 'the 2\nthe 3\n' | "$bin/generate" full --chat --tokens 12 > talked 2> err || wrong "generate: two turns"
printf '<|im_start|>user\nthe 2<|im_end|>\n<|im_start|>assistant\nfox 22<|im_end|>\n<|im_start|>user\nthe 3<|im_end|>\n<|im_start|>assistant\n' > asked
printf '\n' >> asked # a line end at the end of a file is left out
"$bin/generate" full --prompt-file asked --tokens 12 > out 2> err && [ "$(tail -n +2 talked)" = "$(tail -n 1 out)" ] || wrong "generate: the second turn of a conversation"
printf 'the 5\n' > asked; talks 'fox 55|' '' full --chat --tokens 12 --prompt-file asked
printf 'the quick\n' | "$bin/generate" lm --tokens 1 > out 2> err && grep -q '^the quick' out && grep -q 'behind a prompt of 2,' err || wrong "generate: a prompt of a pipe"
expect 2 '[-][-]prompt TEXT is needed' "$bin/generate" lm
expect 2 '[-][-]prompt or [-][-]prompt-file, and not both' "$bin/generate" lm --prompt a --prompt-file asked
printf '%0400d\nthe 3\n' 7 | "$bin/generate" full --chat --tokens 12 > out 2> err || wrong "generate: a message that is too long ends the conversation"
grep -q 'the model at most 128 (/reset begins anew)' err && grep -q '^fox 33$' out || wrong "generate: a message that is too long"
printf '%060d\n' 7 | "$bin/generate" full --chat --tokens 100 --no-eos > out 2> err || wrong "generate: an answer that is too long ends the conversation"
grep -q "the answer ends, because the conversation has the model's 128 tokens" err && grep -q '^1 answer of ' err || wrong "generate: an answer that is too long"
"$bin/generate" lm --tokens 1 --prompt "$(printf '%0400d' 7)" > out 2> err && grep -q 'the prompt has .* tokens, and the model was made for at most 128$' err || wrong "generate: a long prompt"
python3 - "$bin/generate" << 'END' || wrong "generate on a terminal"
import json, os, pty, re, select, signal, sys, time
try:
    for end in os.openpty(): os.close(end)
except OSError as why:  # as in a chroot without /dev/pts
    sys.exit(print(f"not tested, as this machine gives no terminal ({why}): generate on a terminal"))
def talk(arguments, script):  # script: (what to wait for, what to send); returns the exit status and all that was shown
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm")
        os.execv(sys.argv[1], [sys.argv[1], *arguments])
    shown, end = b"", time.time() + 60
    def wait(pattern):
        nonlocal shown
        start = len(shown)
        while not re.search(pattern, shown[start:]) and time.time() < end:
            if not select.select([fd], [], [], 0.1)[0]: continue
            try: part = os.read(fd, 1000)
            except OSError: return
            if not part: return
            shown += part
        assert time.time() < end, (pattern, shown)
    for pattern, sent in script:
        wait(pattern)
        if isinstance(sent, int): os.kill(pid, sent)
        else: os.write(fd, sent)
    wait(rb"no such text")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown
ready = rb"> $"
code, shown = talk(["full", "--chat", "--tokens", "12"], [(ready, b"the 2\n"), (rb"fox 22\r\n> $", b"\x04")])
assert code == 0, (code, shown)
code, shown = talk(["full", "--chat", "--tokens", "12"], [(ready, b"the 2\n"), (rb"fox 22\r\n> $", b"\x03")])  # Ctrl-C while a line is awaited
assert code == 130, (code, shown)
for _ in range(10):  # and between the first question and the read
    code, shown = talk(["full", "--chat"], [(ready, b"\x03")])
    assert code == 130, (code, shown)
# Ctrl-C ends an answer without an end, and the conversation goes on
config = json.load(open("full/config.json")); config["max_position_embeddings"] = 10**6
os.makedirs("long", exist_ok=True)
for name in os.listdir("full"): open(f"long/{name}", "wb").write(open(f"full/{name}", "rb").read())
json.dump(config, open("long/config.json", "w"))
code, shown = talk(["long", "--chat", "--no-eos", "--tokens", "900000"],
                   [(ready, b"the 2\n"), (rb"fox 22", b"\x03"), (ready, b"/reset\n"), (ready, b"the 4\n"), (rb"fox 44", b"\x03"), (ready, b"\x04")])
assert code == 0, (code, shown[-500:])
# control characters are shown as escapes, and reasoning is dim
code, shown = talk(["lm", "--prompt", "a\x1b[31m\x9b <think>so</think> b", "--tokens", "1"], [])
assert b"a\\x1b[31m\\x9b <think>\x1b[2mso</think>\x1b[22m b" in shown, shown
END

# GGUF files: a model that is merged, one that is quantised, adapters alone; each is opened and trained again
expect 0 '^Saved the model as one.gguf$' "$finetune" $chats --steps 2 --out one.gguf
expect 2 'one.gguf is there already: --out names a file that will be made' "$finetune" $chats --steps 2 --out one.gguf
expect 0 '^Saved the model as small.gguf$' "$finetune" full --data chats.jsonl --steps 1 --lr 1e-9 --out small.gguf --floats q8_0
"$bin/generate" small.gguf --chat --prompt 'the 4' --tokens 12 > out 2> err && [ "$(cat out)" = 'fox 44' ] || wrong "generate: a GGUF file answers otherwise than its folder"
grep -q '^generate: small.gguf is opened as q8_0 ([-][-]dtype)$' err || wrong "generate: the dtype of a GGUF file is not said"
"$bin/generate" small.gguf --dtype f32 --chat --prompt 'the 4' --tokens 12 > out 2> err && [ "$(cat out)" = 'fox 44' ] && ! grep -q opened err || wrong "generate --dtype"
"$finetune" small.gguf --data chats.jsonl --steps 1 --lr 1e-9 --merge --out of_small > out 2> err && grep -q '^Saved the model as of_small$' out || wrong "finetune: a GGUF file"
grep -q '^finetune: small.gguf is opened as q8_0 ([-][-]base)$' err || wrong "finetune: the dtype of a GGUF file is not said"
"$bin/generate" of_small --chat --prompt 'the 4' --tokens 12 > out 2> err && [ "$(cat out)" = 'fox 44' ] || wrong "generate: a folder of a GGUF file"
expect 0 '^Saved the adapters as adapter.gguf$' "$finetune" full --data chats.jsonl --steps 1 --out adapter.gguf --adapter-only
"$bin/generate" adapter.gguf --base small.gguf --chat --prompt 'the 4' --tokens 12 > out 2> err || wrong "generate: adapters of a GGUF file"
expect 0 '^Saved the model as in_bf16$' "$finetune" $chats --base bf16 --merge --steps 1 --out in_bf16
grep -q bfloat16 in_bf16/config.json || wrong "finetune --base bf16 --merge does not save bf16"
for base in q8_0 q4_0; do expect 0 '^Saved the adapters' "$finetune" $chats --base $base --steps 2 --out of_$base; done
refuses '[-][-]base needs adapters' "$finetune" lm --data prose --full --base q8_0
refuses '[-][-]adapter-only or --merge, and not both' "$finetune" lm --data prose --adapter-only --merge
ls -d ./*.unfinished* > /dev/null 2>&1 && wrong "finetune leaves an unfinished file"

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
