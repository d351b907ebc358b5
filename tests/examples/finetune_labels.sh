# shellcheck shell=sh disable=SC2154,SC2086
# finetune --task: runs that are stopped, and the labels that a run must have again. tests/examples/check runs it behind finetune.sh, with
# its functions and in its folder.
cd tuned || exit 1
python3 - << 'END'
import json
words = "the quick brown fox jumps over lazy dog".split()
texts = [" ".join(words[(i * k) % 8] for k in range(2, 4 + i % 5)) for i in range(24)]
lines = {"classes": [{"text": text, "label": "good" if i % 3 else "bad"} for i, text in enumerate(texts)],
         "several": [{"text": text, "label": ["good", "bad"][:i % 3]} for i, text in enumerate(texts)],
         "numbers": [{"text": text, "label": i / 8 + 0.5} for i, text in enumerate(texts)],
         "tags": [{"tokens": text.split(), "tags": [word[0] for word in text.split()]} for text in texts]}
def put(name, objects): open(name + ".jsonl", "w").write("".join(json.dumps(o) + "\n" for o in objects))
for name, objects in lines.items():
    put(name, objects)
    for at, which in ((0, "first"), (-1, "last")):  # the last one is held out
        other = json.loads(json.dumps(objects))
        key = "tags" if name == "tags" else "label"
        old = other[at][key]
        if name == "tags": other[at][key][0] = next(tag for tag in "tqbf" if tag != old[0])
        else: other[at][key] = {"classes": "bad" if old == "good" else "good", "several": ["bad"] if old != ["bad"] else [], "numbers": 0.25}[name]
        put(f"{name}_{which}", other)
END
for name in classes several numbers tags; do
    case $name in # all parameters, or adapters with the head
    classes) form='--task classify --full' result=model.safetensors ;;
    several) form='--task classify --lora --dropout 0.1' result=adapter_model.safetensors ;;
    numbers) form='--task classify --full' result=model.safetensors ;;
    tags) form='--task tag --lora --dropout 0.1' result=adapter_model.safetensors ;;
    esac
    steady="lm $form --steps 300 --accumulate 2 --batch 2 --hold-out 0.25 --eval-every 80 --every 10 --keep 2 --threads 1 --lr 1e-3 --allow-worse"
    "$finetune" $steady --data $name.jsonl --checkpoint labels_c --out labels > out 2> err || wrong "finetune $form on $name"
    grep '^Held out: ' out > held || wrong "finetune --task says nothing of what is held out"
    "$finetune" $steady --data $name.jsonl --checkpoint labels_part_c --out labels_part > out 2> err &
    tries=0; until [ "$(cat labels_part_c/log.jsonl 2> /dev/null | wc -l)" -ge 12 ] || [ $tries = 3000 ]; do sleep 0.01; tries=$((tries + 1)); done
    kill -s KILL $!; wait $!
    [ -e labels_part ] && wrong "finetune --task was not stopped"
    "$finetune" $steady --data $name.jsonl --checkpoint labels_part_c --out labels_part > out 2> err || wrong "finetune $form on $name does not go on"
    grep -q '^Goes on after step [1-9]' out || wrong "finetune --task begins anew"
    grep '^Held out: ' out | cmp -s - held || wrong "finetune $form on $name: another figure"
    cmp -s labels/$result labels_part/$result || wrong "finetune $form on $name: other weights"
    logged labels_c/log.jsonl > a; logged labels_part_c/log.jsonl > b; cmp -s a b || wrong "finetune $form on $name: another log"
    for which in first last; do
        expect 2 'is of a run with labels [0-9].* (hash [0-9a-f]*), not [0-9].* (hash [0-9a-f]*)' \
            "$finetune" $steady --data ${name}_$which.jsonl --checkpoint labels_part_c --out other
    done
    rm -r labels labels_c labels_part labels_part_c
done
cd ..
