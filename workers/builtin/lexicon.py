"""Word groups the features use: a word's group generalises where the word itself was never seen.

Plain lower-case ASCII byte strings, because the features read bytes. A word belongs to one group,
the first that lists it; the groups say what a word is for in a request (an order, a thing to write,
a piece of a program), never which class the request has.
"""

_GROUPS = {
    # Orders: to make something, to repair it, to tell about it, to transform a given text.
    b"make": b"""
        write create make build implement generate develop produce code program design construct
        give provide compose draft craft prepare add set setup show put produce
        simulate plot draw""",
    b"mend": b"""
        fix debug refactor optimize optimise rewrite port migrate patch upgrade bump rename
        replace remove delete convert transform parse sort filter split merge iterate loop print
        run rerun execute compile deploy install configure commit rebase push revert lint mock
        wrap cache validate serialize deserialize automate
        reproduce reformat format scrape query select insert import export""",
    b"tell": b"""
        explain describe discuss compare contrast analyze analyse elaborate outline summarize
        summarise evaluate argue explore review reflect suggest recommend advise propose
        brainstorm plan walk imagine pretend persuade convince narrate critique assess interpret
        overview""",
    b"pick": b"""
        classify categorize categorise identify translate spell calculate compute multiply
        divide solve answer define name guess choose select pick rank extract count rate round
        unscramble detect determine correct decide label tag assign fill complete reply respond return
        output read shorten rephrase paraphrase""",
    # Things asked for.
    b"form": b"""
        story stories poem poems poetry essay essays letter letters email emails e-mail article
        articles blog post posts speech toast song lyrics novel chapter scene dialogue monologue
        script screenplay play limerick haiku sonnet ballad report memo proposal pitch cover
        biography bio resume paragraph paragraphs newsletter announcement advertisement ad
        slogan guide itinerary summary description narrative fable tale fairy eulogy vows
        caption tweet brochure press release obituary diary journal interview debate""",
    b"advice": b"""
        advice tips ideas suggestions recommendations opinion thoughts perspective strategies
        strategy steps ways pros cons advantages disadvantages benefits drawbacks risks
        implications causes effects impact reasons role importance significance history
        differences similarities influence consequences challenges lessons principles""",
    b"brief": b"""
        word words number digit digits sentence yes no true false one-word one-sentence briefly
        abbreviation acronym synonym antonym plural capital opposite rhyme sum product
        percentage percent""",
    b"part": b"""
        function functions method methods class classes scripts programs query queries regex
        regexp snippet module package library api endpoint endpoints component components hook
        decorator struct enum trait interface macro variable variables array arrays list dict
        dictionary hashmap tuple string strings integer boolean pointer pointers object objects
        json yaml xml csv html toml schema table tables column columns database index server
        client request response header headers handler middleware route router socket thread
        threads mutex goroutine coroutine async await promise callback closure iterator
        generator lambda algorithm parser compiler test tests testcase unittest fixture fixtures
        stub branch repo repository pull diff pipeline workflow dockerfile makefile container
        image pod cluster config configuration cli command commands terminal shell directory
        directories file files folder path symlink permissions cron crontab daemon stdout stderr
        stdin env button form css stylesheet div selector dom dataframe dataset tensor model
        migration orm queue webhook token oauth jwt login regexes template templates lockfile
        dependency dependencies import imports namespace""",
    # Answers asked to be small, tasks on a given text, and the life around a request.
    b"only": b"only just exactly single nothing else without letter quickly quick simply",
    b"label": b"""
        sentiment labels category categories premise hypothesis passage context options option
        paragraph intent entailment entail contradiction positive negative neutral spam paraphrase
        paraphrases excerpt quote article input following below correct incorrect
        review tweet headline statement answer question entity entities""",
    b"life": b"""
        feel feels feeling felt worried scared love hate angry sad happy afraid tired lonely
        life home house garden flat apartment neighbour neighbor neighbours relationship marriage
        wedding birthday trip travel holiday vacation school university career salary doctor
        health sleep weight diet exercise food cooking dog cat baby child children parents
        mother father sister brother grandmother grandfather grandma grandpa daughters sons
        partner girlfriend boyfriend landlord roommate flatmate money savings rent""",
    b"idea": b"""
        society culture economy economic politics political government war religion philosophy
        ethics moral theory science nature climate environment education psychology evolution
        democracy capitalism century revolution empire art music literature poetry author
        character characters plot theme themes symbolism novel audience argument arguments
        viewpoint perspective meaning happiness identity freedom justice""",
    b"fault": b"""
        error errors exception exceptions traceback stacktrace segfault segmentation undefined
        null nullpointer nullpointerexception typeerror valueerror keyerror indexerror
        attributeerror importerror modulenotfounderror syntaxerror nameerror runtimeerror panic
        panics crash crashes crashing crashed bug bugs failing fails failed deadlock leak leaks
        timeout timeouts warning warnings flaky broken enoent econnrefused 404 500 oom uncaught""",
    b"lang": b"""
        python python3 py javascript js typescript ts java kotlin scala swift rust golang go c
        c++ cpp c# csharp php ruby perl lua r julia haskell ocaml elixir erlang clojure dart zig
        bash zsh powershell sql postgres postgresql mysql sqlite mongodb redis graphql scss sass
        tailwind react vue angular svelte nextjs node nodejs deno express django flask fastapi
        rails spring laravel numpy pandas pytorch tensorflow sklearn scikit matplotlib jest
        pytest mypy eslint webpack vite npm yarn pnpm pip conda cargo gradle maven cmake docker
        kubernetes k8s helm terraform ansible nginx apache git github gitlab jenkins linux
        ubuntu debian unix vim emacs awk sed grep find xargs curl wget ssh rsync tar systemd
        asyncio celery sqlalchemy hibernate junit cypress playwright selenium opencv unity
        pygame godot electron esp32 raspberry aws s3 ec2 azure gcp sqs kafka rabbitmq jq tidyr
        dplyr ggplot2 seaborn plotly d3 jquery bootstrap excel spreadsheet beamer canvas
        websocket websockets fortran cobol assembly matlab verilog vba latex solidity cuda
        opengl arduino ffmpeg prolog shader glsl hlsl cython
        scipy networkx jupyter notebook colab streamlit gradio airflow spark pyspark hadoop dbt
        duckdb snowflake clickhouse mariadb firebase supabase prisma flutter swiftui jetpack
        xcode android ios wordpress shopify woocommerce drupal jinja htmx alpine astro
        remix vitest mocha chai cucumber gherkin plantuml mermaid graphviz tikz pgfplots
        overleaf bibtex markdown autohotkey applescript vbscript powerquery dax libreoffice
        openoffice vlookup xlookup sumif sumifs countif pivot sheets
        userscript tampermonkey greasemonkey node-red mqtt modbus zigbee esphome openwrt pfsense
        haproxy traefik caddy postfix dovecot bind certbot letsencrypt fail2ban iptables nftables
        ufw wireguard openvpn samba nfs zfs btrfs lvm raid proxmox vagrant packer puppet chef
        prometheus grafana kibana logstash argocd istio minikube openshift lambda cloudformation
        cloudflare heroku netlify vercel supercollider pygame turtle scratch micropython
        raspbian stm32 esp8266 avr pic fpga vhdl xslt xpath xquery svg canvas webgl threejs
        rxjs redux zustand nuxt electron tauri qt tkinter pyqt gtk winforms wpf xaml
        blazor dotnet linq nuget lombok kotlinx ktor coroutines swiftdata
        combine uikit tensorflow keras huggingface transformers langchain openai""",
    b"gear": b"""
        app apps application browser website web page prototype backend frontend software
        hardware firmware microcontroller sensor gpio driver kernel plugin extension editor ide
        widget sprite game engine render renders rendering scroll viewport frames webcam pixels
        gradient epochs loss training weights layer layers lexer syntax compiles compiled
        runtime stack heap memory cpu gpu disk mount network ip dns proxy firewall ssl tls
        certificate vps vm instance deployed production staging builds version versions upgraded
        packages profiler benchmark refactored throws throw catch caught returns returning
        prints printed loops recursion recursive parallel concurrency cached upload download
        export sync log logs logging tool type types typed codebase monolith microservice
        service services worker workers job jobs checkout ticket sprint feature flag flags
        toggle permission auth password passwords session cookie cookies macros formula cell
        cells row rows bot bots scrape scraped scraper crawler scripted automate automated
        automation""",
    # Questions: those one fact answers, and those that want an account.
    b"fact": b"who whom whose when where which",
    b"open": b"why how what",
    b"amount": b"many much tall old far long big heavy deep fast high often large",
    # Talk around the request.
    b"greet": b"hi hello hey hiya yo howdy greetings morning afternoon evening sup",
    b"thank": b"thanks thank thx ty cheers bye goodbye ok okay yep nope sure cool great nice lol",
    b"asks": b"""
        please can could would will you i'd i i'm im need want like help me kindly just trying
        hoping wondering know""",
    b"person": b"""
        my our we us boss manager friend wife husband mom dad son daughter kid kids family
        customer team colleague""",
    b"unit": b"""
        miles mile kilometers km meters metres feet foot inches inch cm mm pounds lbs kg
        kilograms grams ounces oz liters litres gallons cups tablespoons teaspoons celsius
        fahrenheit kelvin hours minutes seconds days weeks months years dollars euros usd eur
        gbp mph kph acres bytes kilobytes megabytes gigabytes""",
}


def _index() -> dict[bytes, bytes]:
    groups: dict[bytes, bytes] = {}
    for group, words in _GROUPS.items():
        for word in words.split():
            groups.setdefault(word, group)
    return groups


GROUP_OF = _index()

# Politeness and greetings before the order itself: skipped to find the words a request opens with.
PREAMBLE = frozenset(
    b"hi hello hey hiya yo howdy greetings there please can could would will you i i'd i'm i've"
    b" need want like to help me kindly just so ok okay well um a an the some do think if"
    b" how".split()
)
